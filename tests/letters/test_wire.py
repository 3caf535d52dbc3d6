import json
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedspca.letters.wire import MARK, MAX_ARRAYS, PREFIX, Message, WireError, decode, encode

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ARRAYS = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.uint64, np.uint8]),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
MESSAGES = st.builds(
    Message,
    st.text(max_size=40),
    st.dictionaries(st.text(max_size=8), PLAIN, max_size=4),
    st.dictionaries(st.text(max_size=8), ARRAYS, max_size=4),
)


@given(MESSAGES)
def test_what_is_encoded_is_decoded(message):
    back = decode(encode(message))
    assert (back.kind, back.fields) == (message.kind, message.fields)
    assert list(back.arrays) == list(message.arrays)
    for name, array in message.arrays.items():
        assert back.arrays[name].dtype == array.dtype
        assert back.arrays[name].shape == array.shape
        assert back.arrays[name].tobytes() == array.tobytes()
    assert encode(back) == encode(message)


@settings(max_examples=300)
@given(MESSAGES, st.data())
def test_damaged_bytes_are_refused_or_another_message_but_never_a_crash(message, data):
    content = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for damaged in (bytes(content), bytes(content[:cut])):
        try:
            found = decode(damaged)
        except WireError:
            continue
        assert sum(array.nbytes for array in found.arrays.values()) <= len(damaged)


@given(st.binary(max_size=300))
def test_noise_is_refused(noise):
    with pytest.raises(WireError):
        decode(noise)
    with pytest.raises(WireError):
        decode(MARK + noise)


def forged(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return PREFIX.pack(MARK, len(text)) + text + body


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"kind": "ask", "fields": {}, "arrays": [["x", "<f8", [10**6, 10**6]]]}, "longer than the message"),
        ({"kind": "ask", "fields": {}, "arrays": [["x", "<f8", [2**40, 2**40, 2**40]]]}, "longer than the message"),
        ({"kind": "ask", "fields": {}, "arrays": [["x", "<f8", [0, 2**47, 2**47]]]}, "longer than the message"),
        ({"kind": "ask", "fields": {}, "arrays": [["x", "|O", [1]]]}, "type that does not travel"),
        ({"kind": "ask", "fields": {}, "arrays": [["x", "<f8", [-1]]]}, "no shape"),
        ({"kind": "ask", "fields": {}, "arrays": [["x", "<f8", [True]]]}, "no shape"),
        ({"kind": "ask", "fields": {}, "arrays": [["x", "<f8", [0] * 9]]}, "no shape"),
        ({"kind": "ask", "fields": {}, "arrays": [["x", "|u1", [0]], ["x", "|u1", [0]]]}, "two arrays"),
        ({"kind": "ask", "fields": {}, "arrays": [["x", "|u1", [0]]] * (MAX_ARRAYS + 1)}, "arrays"),
        ({"kind": "ask", "fields": [], "arrays": []}, "wrong type"),
        ({"kind": "a" * 99, "fields": {}, "arrays": []}, "99 letters"),
        ({"kind": "ask"}, "parts kind, fields and arrays"),
        (b'{"kind": "ask", "fields": {"x": NaN}, "arrays": []}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\x80\x04\x95", "not JSON"),  # the beginning of a pickle
    ],
)
def test_a_hostile_header_is_refused_before_memory_is_taken(header, words):
    letter = forged(header)
    tracemalloc.start()
    with pytest.raises(WireError, match=words):
        decode(letter)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(letter) + 1_000_000


def test_limits_hold():
    letter = encode(Message("ask", {}, {"x": np.zeros(100)}))
    with pytest.raises(WireError, match="longer than the 500"):
        decode(letter, max_bytes=500)
    with pytest.raises(WireError, match="8 bytes more"):
        decode(letter + bytes(8))
    with pytest.raises(WireError, match="cut off"):
        decode(struct.pack("<8sI", MARK, 4_000_000_000))
    with pytest.raises(WireError, match="does not travel"):
        encode(Message("ask", {}, {"x": np.array(["text"])}))
    with pytest.raises(ValueError, match="JSON"):
        encode(Message("ask", {"x": float("nan")}))


def test_fields_are_asked_for_by_type():
    message = Message("ask", {"name": "x" * 20, "count": 3, "flag": True, "below": -1})
    assert message.text("name") == "x" * 20
    assert message.number("count") == 3
    for name in ("flag", "below", "name", "none"):
        with pytest.raises(WireError, match="whole number"):
            message.number(name)
    with pytest.raises(WireError, match="at most 10"):
        message.text("name", 10)
