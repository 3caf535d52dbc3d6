"""Messages as bytes: untrusted input is checked before any memory is allocated, and nothing is unpickled.

A message is a kind, a few plain fields and named arrays. Its bytes are a mark, the length of a JSON header, the header
(kind, fields, and each array's name, dtype and shape), and the arrays' own bytes, one after the other.

What may never change:

- The same message has the same bytes on every machine: signatures, hashes of questions and journals depend on it.
- Reading never runs anything: there is no pickle, and fields are plain JSON.
- Lengths, types and shapes are checked against the bytes that are there before memory is taken for them.
- Bytes that do not begin with ``MARK`` are refused. A new layout gets a new mark, so that old and new never mix.
- Arrays are little-endian and of the types in ``DTYPES``; a type may be added, and none may change its meaning.
"""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MARK = b"fedspca1"
PREFIX = struct.Struct("<8sI")
MAX_HEADER = 1 << 20
MAX_BYTES = 1 << 30
MAX_ARRAYS = 64
MAX_DIMENSIONS = 3
DTYPES = ("<f8", "<f4", "<i8", "<u8", "|u1")


class WireError(ValueError):
    """The bytes are not a message, or the message is too long."""


@dataclass(frozen=True, eq=False)
class Message:
    """A kind, plain fields (whatever JSON can hold) and named arrays."""

    kind: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def text(self, name: str, most: int = 1000) -> str:
        """Return a field that must be a text of at most ``most`` characters."""
        value = self.fields.get(name)
        if not isinstance(value, str) or len(value) > most:
            raise WireError(f"The field {name!r} of a {self.kind!r} message must be a text of at most {most} letters.")
        return value

    def number(self, name: str) -> int:
        """Return a field that must be a whole number of 63 bits, not negative."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
            raise WireError(f"The field {name!r} of a {self.kind!r} message must be a whole number.")
        return value


def encode(message: Message) -> bytes:
    """Return the bytes of a message: always the same for the same message."""
    arrays = {name: _plain(name, array) for name, array in message.arrays.items()}
    header = {
        "kind": message.kind,
        "fields": message.fields,
        "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()],
    }
    text = json.dumps(header, allow_nan=False, separators=(",", ":"), sort_keys=True).encode()
    if len(text) > MAX_HEADER:
        raise WireError(f"A {message.kind!r} message has {len(text)} bytes of fields; at most {MAX_HEADER} can travel.")
    return b"".join([PREFIX.pack(MARK, len(text)), text, *(array.tobytes() for array in arrays.values())])


def decode(data: bytes, max_bytes: int = MAX_BYTES) -> Message:
    """Return the message that bytes hold. Arrays are read-only views of the bytes, so nothing is copied.

    Parameters
    ----------
    data : bytes
        What arrived.
    max_bytes : int
        The longest message taken.
    """
    if len(data) > max_bytes:
        raise WireError(f"A message of {len(data)} bytes is longer than the {max_bytes} that are taken.")
    if len(data) < PREFIX.size:
        raise WireError("Bytes that are too short to be a message.")
    mark, length = PREFIX.unpack_from(data)
    if mark != MARK:
        raise WireError("Bytes that are not a message of this version of fedspca.")
    start = PREFIX.size + length
    if length > MAX_HEADER or start > len(data):
        raise WireError("A message whose header is cut off or too long.")
    header = _header(bytes(data[PREFIX.size : start]))
    arrays, end = _arrays(header["arrays"], data, start)
    if end != len(data):
        raise WireError(f"A message with {len(data) - end} bytes more than its header says.")
    return Message(header["kind"], header["fields"], arrays)


def _plain(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """An array in the order and form in which it travels."""
    array = np.asarray(array, order="C")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype.str not in DTYPES:
        raise WireError(f"The array {name!r} is of type {array.dtype}, which does not travel.")
    return array


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise WireError("A message whose header is not JSON.") from None
    if not isinstance(header, dict) or set(header) != {"kind", "fields", "arrays"}:
        raise WireError("A message whose header has not the parts kind, fields and arrays.")
    kind, fields, arrays = header["kind"], header["fields"], header["arrays"]
    if not isinstance(kind, str) or not isinstance(fields, dict) or not isinstance(arrays, list):
        raise WireError("A message whose header has parts of the wrong type.")
    if len(kind) > 40 or len(arrays) > MAX_ARRAYS:
        raise WireError(f"A message with a kind of {len(kind)} letters and {len(arrays)} arrays.")
    return header


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON.")


def _arrays(described: list[Any], data: bytes, start: int) -> tuple[dict[str, NDArray[Any]], int]:
    arrays: dict[str, NDArray[Any]] = {}
    for item in described:
        name, dtype, shape = _described(item)
        if name in arrays:
            raise WireError(f"A message with two arrays called {name!r}.")
        count = math.prod(shape)  # Python's integers do not overflow
        size = count * np.dtype(dtype).itemsize
        widest = math.prod(max(side, 1) for side in shape)  # an empty array may still have a side that is too long
        if size > len(data) - start or widest > MAX_BYTES:
            raise WireError(f"A message whose array {name!r} of shape {tuple(shape)} is longer than the message.")
        arrays[name] = np.frombuffer(data, dtype, count, start).reshape(shape)
        start += size
    return arrays, start


def _described(item: Any) -> tuple[str, str, list[int]]:
    if not isinstance(item, list) or len(item) != 3:
        raise WireError("A message that does not describe its arrays.")
    name, dtype, shape = item
    if not isinstance(name, str) or len(name) > 100 or not isinstance(dtype, str) or dtype not in DTYPES:
        raise WireError("A message with an array of a type that does not travel.")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
        raise WireError(f"A message whose array {name!r} has no shape.")
    if not all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 48 for size in shape):
        raise WireError(f"A message whose array {name!r} has no shape.")
    return name, dtype, shape
