"""Files that are either whole or not there: written under a temporary name, forced to the disk, then renamed."""

import os
import shutil
import tempfile
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
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=".", suffix=f".part{target.suffix}", dir=target.parent)
    os.close(handle)
    try:
        yield Path(draft)
        if not private:
            mask = os.umask(0)
            os.umask(mask)
            Path(draft).chmod(0o666 & ~mask)  # a temporary file is private; a result is as the user's other files
        force_to_disk(Path(draft))
        Path(draft).replace(target)
        force_to_disk(target.parent)  # the new name too
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def force_to_disk(path: Path) -> None:
    """Wait until what was written to a file, or to a folder, would survive a loss of power."""
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Locked(RuntimeError):
    """A file or folder that another process has for itself."""


@contextmanager
def only_one(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Let one process at a time do what follows. The lock goes with the process, however it ends.

    Parameters
    ----------
    path : Path
        The file that stands for what is locked; it is made, and stays.
    wait : bool
        Whether to wait for another process, or raise :class:`Locked`.
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
    """Return a text that no spreadsheet computes: one that begins like a formula gets an apostrophe in front.

    Spreadsheets look past blanks, line breaks and marks that cannot be seen, and some take a full-width sign for the
    ordinary one. In a study between institutions texts come from others. A number stays a number.
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
