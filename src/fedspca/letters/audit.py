"""The record of what left a site, for its owner: an append-only log in which each line has the hash of the one before.

Each line is a JSON object with the hash of the line before it. A changed, removed or inserted line breaks the chain.
The last hash is kept in a separate file, so lines removed at the end are detected too. If that file is changed as well,
only others can detect it: every reply carries the head of the log, and :meth:`Audit.verify` accepts such heads.

A line is on the disk before the answer that it records leaves the site. So if a power failure leaves a line unfinished,
its answer did not leave. Such a line is moved to a file beside the log, and the next line says so. Processes that share
a log take turns.
"""

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedspca.files import append_line, new_file, only_one

START = "0" * 64


class BrokenLog(ValueError):
    """A log that is not as it was written."""


class Audit:
    """The log of one site.

    Parameters
    ----------
    path : Path, optional
        The file. Without one, the log is kept in memory.
    listener : callable, optional
        Called with every new line.
    """

    def __init__(self, path: Path | None = None, listener: Callable[[Mapping[str, Any]], object] | None = None) -> None:
        self._path = path
        self._listener = listener
        self._lines: list[dict[str, Any]] = []
        self._lock = threading.RLock()
        self._held = False
        self._head = START
        self._count = 0
        self._size = 0
        with self.exclusive():
            self._torn = self._refresh()  # the next line will say so

    @property
    def head(self) -> str:
        """The hash of the last line: it stands for the whole log."""
        return self._head

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other processes and threads from adding lines meanwhile."""
        with self._lock:
            if self._path is None or self._held:
                yield
                return
            with only_one(self._path.with_name(f"{self._path.name}.lock")):
                self._held = True
                try:
                    yield
                finally:
                    self._held = False

    def add(self, **about: Any) -> str:
        """Add a line, before the answer that it records leaves the site; return the new head."""
        with self.exclusive():
            if torn := self._refresh() or self._torn:
                about["torn"] = f"{torn} bytes of an unfinished line were set aside before this one"
            self._torn = 0
            line = {"number": self._count + 1, "time": datetime.now(UTC).isoformat(timespec="milliseconds"), **about}
            line["before"] = self._head
            line["hash"] = line_hash(line)
            if self._path is None:
                self._lines.append(line)
            else:
                self._write(self._path, line)
            self._head, self._count = line["hash"], line["number"]
            if self._listener is not None:
                self._listener(line)
            return self._head

    def _write(self, path: Path, line: Mapping[str, Any]) -> None:
        before = path.stat().st_size if path.exists() else 0
        size = append_line(path, json.dumps(line), sync=True)
        try:
            with new_file(_head_file(path)) as draft:
                draft.write_text(str(line["hash"]), encoding="utf-8")
        except OSError:  # a full disk: the recorded answer does not leave, so the line is removed too
            os.truncate(path, before)
            raise
        self._size = size

    def _refresh(self) -> int:
        """Read what another process has added since, and set an unfinished line aside; return how long that was."""
        path = self._path
        if path is None or not path.exists() or path.stat().st_size == self._size:
            return 0
        torn = _set_torn_line_aside(path)
        self._head, self._count = START, 0
        for line in self.lines():
            self._head, self._count = line["hash"], self._count + 1
        self._size = path.stat().st_size
        return torn

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines, oldest first."""
        if self._path is None:
            yield from self._lines
        elif self._path.exists():
            with self._path.open(encoding="utf-8", errors="replace") as file:  # altered bytes break the chain
                for number, text in enumerate(file, 1):
                    if text.endswith("\n"):  # otherwise the line is unfinished
                        yield _parsed(self._path, number, text)

    def verify(self, heads: Iterable[str] = (), *, own_head: bool = True) -> int:
        """Return how many lines there are, or raise :class:`BrokenLog` with the first that is not as it was written.

        Parameters
        ----------
        heads : iterable of str
            Heads of this log that others kept: if one is missing, lines were removed from the log.
        own_head : bool
            Whether the head that the site keeps beside its log must be there too; a copy of the log comes without it.
        """
        before, head, count = START, START, 0
        missing = set(heads) - {START}
        for count, line in enumerate(self.lines(), 1):
            where = f"{self._path or 'The log'}, line {count}"
            if line.get("number") != count or line.get("before") != head:
                raise BrokenLog(f"{where}: a line before it was removed, added or moved.")
            if line.get("hash") != line_hash(line):
                raise BrokenLog(f"{where}: the line was changed after it was written.")
            before, head = head, line["hash"]
            missing.discard(head)
        if missing:
            raise BrokenLog(f"{self._path or 'The log'}: others hold the head of a line that is not there any more.")
        # a killed site may have written a line but not yet the file with its hash
        if own_head and self._path is not None and _kept_head(self._path) not in {before, head}:
            raise BrokenLog(f"{self._path}: lines were removed from its end.")
        return count


def line_hash(line: Mapping[str, Any]) -> str:
    """Return the hash of a line, which covers everything in it but the hash itself."""
    content = {name: value for name, value in line.items() if name != "hash"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _head_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.head")


def _kept_head(path: Path) -> str:
    kept = _head_file(path)
    return kept.read_text(encoding="utf-8").strip() if kept.exists() else START


def _set_torn_line_aside(path: Path) -> int:
    """Move an unfinished last line to a file beside the log; return how many bytes it had."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole == len(content):
        return 0
    with path.with_name(f"{path.name}.torn").open("ab") as aside:
        aside.write(content[whole:] + b"\n")
    os.truncate(path, whole)
    return len(content) - whole


def _parsed(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise BrokenLog(f"{path}, line {number}: it is not a line of the log.") from None
    if not isinstance(line, dict) or not isinstance(line.get("hash"), str):
        raise BrokenLog(f"{path}, line {number}: it is not a line of the log.")
    return line
