"""Files that are either whole or not there: written under a temporary name, then renamed."""

import os
import shutil
import tempfile
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
        Path(draft).replace(target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
