"""Saved sums of a fit, one file per round: the question, the sum, and a checksum.

A solver is a deterministic function of the sums it gets. Given the same sums it asks the same questions. So an
interrupted fit is restored by replaying the saved sums, and continues with the first question that has no saved sum.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from fedspca.federation.base import Aggregate, FederationError
from fedspca.files import new_file
from fedspca.letters.wire import Message, WireError, decode, encode
from fedspca.site.question import Query, query_hash

IDENTITY = "study.json"
VERSION = 1
CHECKSUM = 32


class InvalidCheckpoint(FederationError):
    """A checkpoint that is incomplete, was altered, or belongs to another fit."""


class Journal:
    """The sums of a fit, in a folder.

    Parameters
    ----------
    folder : Path
        Where they are.
    identity : str
        Identifies the settings and the data. A journal of another fit is refused.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder = folder
        path = folder / IDENTITY
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with new_file(path) as draft:
                draft.write_text(json.dumps({"version": VERSION, "identity": identity}), encoding="utf-8")
        elif _identity(path) != {"version": VERSION, "identity": identity}:
            raise InvalidCheckpoint(
                f"{folder}: this checkpoint is of other data, settings or versions, so it cannot be continued. "
                "Begin anew without --resume, or give back what was changed."
            )

    def __len__(self) -> int:
        """The number of saved rounds before the first gap."""
        number = 0
        while self._path(number + 1).exists():
            number += 1
        return number

    def keep(self, number: int, query: Query, answer: Aggregate | None, after: Message | None = None) -> None:
        """Save a round: the question, the sum (None if a site was lost), and the federation's state after it."""
        fields: dict[str, Any] = {"number": number, "query": query_hash(query), "numbers": None}
        arrays: dict[str, Any] = {}
        if answer is not None:
            fields["numbers"] = [answer.n_sites, answer.bytes_up, answer.bytes_down]
            arrays = dict(answer.arrays)
        if after is not None:
            arrays["after:state"] = np.frombuffer(encode(after), np.uint8)
        content = encode(Message("round", fields, arrays))
        with new_file(self._path(number), private=True) as draft:
            draft.write_bytes(hashlib.sha256(content).digest() + content)

    def kept(self, number: int, query: Query) -> tuple[Aggregate | None, Message | None]:
        """Return what was saved of a round, if it asked this question."""
        message = self._read(number)
        if message.fields["query"] != query_hash(query):
            raise InvalidCheckpoint(
                f"{self.folder}: round {number} asks something else than before, so this checkpoint cannot be "
                "continued. It may be of another version, or another machine. Begin anew without --resume."
            )
        arrays = {name: array.copy() for name, array in message.arrays.items()}
        state = arrays.pop("after:state", None)
        numbers = message.fields["numbers"]
        try:
            after = None if state is None else decode(state.tobytes())
        except WireError as error:
            raise InvalidCheckpoint(f"{self._path(number)}: {error}") from None
        return (None if numbers is None else Aggregate(arrays, *numbers)), after

    def _read(self, number: int) -> Message:
        path = self._path(number)
        content = path.read_bytes()
        if hashlib.sha256(content[CHECKSUM:]).digest() != content[:CHECKSUM]:
            raise InvalidCheckpoint(f"{path}: the file was cut off or altered, so it cannot be continued from.")
        try:
            message = decode(content[CHECKSUM:])
        except WireError as error:
            raise InvalidCheckpoint(f"{path}: {error}") from None
        if message.kind != "round" or message.fields.get("number") != number:
            raise InvalidCheckpoint(f"{path}: it holds another round than its name says.")
        numbers = message.fields.get("numbers", ())
        counts = isinstance(numbers, list) and [type(each) for each in numbers] == [int, int, int]
        if not isinstance(message.fields.get("query"), str) or not (numbers is None or counts):
            raise InvalidCheckpoint(f"{path}: it does not say what was asked and answered.")
        return message

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.round"


def _identity(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InvalidCheckpoint(f"{path}: the file was cut off or altered, so it cannot be continued from.") from None
