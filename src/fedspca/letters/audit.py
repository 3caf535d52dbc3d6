"""What a site let out, for its owner to read later: an append-only log in which every line seals the lines before it.

Each line is a JSON object with the hash of the line before it. A line that is changed, removed or put in breaks the
chain; the last hash is kept in a file of its own, so that lines cut off at the end are missed too.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedspca.files import new_file

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
        self._lock = threading.Lock()
        self._head = START
        self._count = 0
        if path is not None and path.exists():
            for line in self.lines():
                self._head, self._count = line["hash"], self._count + 1

    @property
    def head(self) -> str:
        """The hash of the last line: it stands for the whole log."""
        return self._head

    def add(self, **about: Any) -> str:
        """Add a line, before what it tells of leaves the site; return the new head."""
        with self._lock:
            line = {"number": self._count + 1, "time": datetime.now(UTC).isoformat(timespec="milliseconds"), **about}
            line["before"] = self._head
            line["hash"] = line_hash(line)
            if self._path is None:
                self._lines.append(line)
            else:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                with new_file(_head_file(self._path)) as draft:
                    draft.write_text(line["hash"], encoding="utf-8")
            self._head, self._count = line["hash"], line["number"]
            if self._listener is not None:
                self._listener(line)
            return self._head

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines, oldest first."""
        if self._path is None:
            yield from self._lines
        elif self._path.exists():
            with self._path.open(encoding="utf-8") as file:
                for number, text in enumerate(file, 1):
                    yield _parsed(self._path, number, text)

    def verify(self) -> int:
        """Return how many lines there are, or raise :class:`BrokenLog` with the first that is not as it was written."""
        before, head, count = START, START, 0
        for count, line in enumerate(self.lines(), 1):
            where = f"{self._path or 'The log'}, line {count}"
            if line.get("number") != count or line.get("before") != head:
                raise BrokenLog(f"{where}: a line before it was removed, added or moved.")
            if line.get("hash") != line_hash(line):
                raise BrokenLog(f"{where}: the line was changed after it was written.")
            before, head = head, line["hash"]
        # a site that was killed may have written a line and not yet its hash
        if self._path is not None and _kept_head(self._path) not in {before, head}:
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


def _parsed(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        raise BrokenLog(f"{path}, line {number}: it is not a line of the log.") from None
    if not isinstance(line, dict) or not isinstance(line.get("hash"), str):
        raise BrokenLog(f"{path}, line {number}: it is not a line of the log.")
    return line
