"""Files that are either complete or absent: written under a temporary name, forced to the disk, then renamed."""

import errno
import os
import shutil
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Write a folder under a temporary name; it gets its final name only when it is complete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{target.name[:40]}.", suffix=".part", dir=target.parent))
    try:
        yield draft
        if target.exists():
            # a folder cannot be renamed over another, so the old one is moved away first
            aside = draft.with_suffix(".old")
            target.rename(aside)
            draft.rename(target)
            shutil.rmtree(aside)
        else:
            draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


@contextmanager
def new_file(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Write a file under a temporary name; it gets its final name when it is complete. Private: for the owner only."""
    if target.is_dir():
        raise IsADirectoryError(f"{target}: it is a directory. Name a file.")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=".", suffix=f".part{target.suffix}", dir=target.parent)
    os.close(handle)
    try:
        yield Path(draft)
        if not private:
            mask = os.umask(0)
            os.umask(mask)
            Path(draft).chmod(0o666 & ~mask)  # temporary files are private; results get the user's usual permissions
        force_to_disk(Path(draft))
        Path(draft).replace(target)
        force_to_disk(target.parent)  # the new name too
    except BaseException as error:
        Path(draft).unlink(missing_ok=True)
        if isinstance(error, OSError) and disk_is_full(error):  # the system does not say of which file
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise


def force_to_disk(path: Path) -> None:
    """Wait until what was written to a file or folder is on the disk and would survive a power failure."""
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def append_line(path: Path, text: str, *, sync: bool = False) -> int:
    """Add a whole line to a file, or nothing: if the disk is full, a partial line is removed. Return the new size."""
    content = memoryview(text.encode() + b"\n")
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            while content:  # a nearly full disk writes only a part; the next write then fails
                content = content[file.write(content) or 0 :]
            if sync:
                os.fsync(file.fileno())
        except OSError as error:
            file.truncate(before)
            raise OSError(error.errno, error.strerror, str(path)) from None
        return file.tell()


def disk_is_full(error: BaseException) -> bool:
    """Return whether an error says that the disk is full, or that the user's quota is used up."""
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}


def full_disk(path: Path | str) -> str:
    """Return in words that a file could not be written, how much space there is, and what to do."""
    path = Path(path)
    folder = next((parent for parent in (path, *path.parents) if parent.is_dir()), Path())
    usage = shutil.disk_usage(folder)
    return (
        f"disk full at {folder}: {path.name} could not be written ({usage.free / 1e6:,.1f} MB of "
        f"{usage.total / 1e6:,.0f} MB are free, or this account may use no more). Free some space, and go on"
    )


def remove_drafts(folder: Path, older_than: float = 3600.0) -> int:
    """Remove the unfinished files that killed processes left in a folder; return how many there were."""
    end = time.time() - older_than
    # another command may still be writing a younger one
    drafts = [path for path in folder.glob(".*.part*") if path.lstat().st_mtime < end]
    for path in drafts:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return len(drafts)


class Locked(RuntimeError):
    """A file or folder that another process has locked."""


@contextmanager
def only_one(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Let only one process at a time run the code inside. The lock ends with the process, however the process ends.

    Parameters
    ----------
    path : Path
        The lock file. It is created if needed, and is not deleted.
    wait : bool
        Whether to wait for another process. If not, :class:`Locked` is raised.
    """
    try:
        import fcntl
    except ImportError:  # not on Windows, where a site is one process
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(f"{path}: another process has it.") from None
        yield
    finally:
        os.close(handle)


def spreadsheet_safe(text: str) -> str:
    """Return a text that no spreadsheet runs as a formula: if it begins like one, an apostrophe is put in front.

    Spreadsheets skip blanks, line breaks and invisible characters at the start, and some treat a full-width sign as the
    ordinary one. In a study between institutions, texts come from other people. Numbers are not changed.
    """
    try:
        float(text)
    except ValueError:
        pass
    else:
        return text
    seen = unicodedata.normalize("NFKC", text)
    hidden = 0
    while hidden < len(seen) and unicodedata.category(seen[hidden])[0] in "CZ":  # control, format, separators
        hidden += 1
    begins = text[:1] in ("\t", "\r", "\n") or seen[hidden : hidden + 1] in tuple("=+-@|%−")
    return f"'{text}" if begins else text
