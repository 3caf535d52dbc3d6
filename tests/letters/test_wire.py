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


@settings(max_examples=100)
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


# -- to the last bound -------------------------------------------------------------------------------------------------


def test_the_bytes_are_as_documented():
    message = Message("ask", {"b": 1, "a": "é"}, {"x": np.array([1.5, -2.0]), "n": np.array(3, np.uint8)})
    header = b'{"arrays":[["x","<f8",[2]],["n","|u1",[]]],"fields":{"a":"\\u00e9","b":1},"kind":"ask"}'
    body = np.array([1.5, -2.0]).tobytes() + b"\x03"
    assert encode(message) == b"fedspca1" + struct.pack("<I", len(header)) + header + body
    assert PREFIX.size == 12


def test_arrays_travel_in_one_order_of_bytes_and_of_rows():
    array = np.arange(6.0).reshape(2, 3)
    for same in (array.astype(">f8"), np.asfortranarray(array), array[::1], np.repeat(array, 2, axis=1)[:, ::2]):
        assert encode(Message("ask", {}, {"x": same})) == encode(Message("ask", {}, {"x": array}))
    back = decode(encode(Message("ask", {}, {"x": array}))).arrays["x"]
    assert not back.flags.writeable


def test_headers_up_to_a_mebibyte_travel_and_no_longer_ones():
    room = (1 << 20) - len(json.dumps({"arrays": [], "fields": {"x": ""}, "kind": "k"}, separators=(",", ":")))
    letter = encode(Message("k", {"x": "y" * room}))
    assert decode(letter).fields["x"] == "y" * room
    with pytest.raises(WireError, match=r"'k' message has 1048577 bytes of fields; at most 1048576"):
        encode(Message("k", {"x": "y" * (room + 1)}))
    text = b" " * ((1 << 20) + 1)
    with pytest.raises(WireError, match="cut off or too long"):
        decode(PREFIX.pack(MARK, len(text)) + text)


def test_a_message_may_be_as_long_as_is_taken_and_no_longer():
    letter = encode(Message("ask", {}, {"x": np.zeros(10)}))
    assert decode(letter, max_bytes=len(letter)).kind == "ask"
    with pytest.raises(WireError, match=f"{len(letter)} bytes is longer than the {len(letter) - 1}"):
        decode(letter, max_bytes=len(letter) - 1)


@pytest.mark.parametrize("length", [0, 1, 11])
def test_what_is_shorter_than_a_prefix_is_no_message(length):
    with pytest.raises(WireError, match="too short"):
        decode(b"fedspca1\0\0\0\0"[:length])
    with pytest.raises(WireError, match="not JSON"):
        decode(b"fedspca1\0\0\0\0")


def test_another_mark_and_a_header_that_is_cut_off_are_told_apart():
    letter = encode(Message("ask"))
    with pytest.raises(WireError, match="not a message of this version"):
        decode(b"fedspca2" + letter[8:])
    with pytest.raises(WireError, match="cut off"):
        decode(letter[:-1])


def described(*arrays, body=b"", kind="ask"):
    return forged({"kind": kind, "fields": {}, "arrays": list(arrays)}, body)


def test_limits_of_kinds_names_arrays_and_shapes_are_met_exactly():
    assert decode(described(kind="k" * 40)).kind == "k" * 40
    with pytest.raises(WireError, match="41 letters"):
        decode(described(kind="k" * 41))
    many = [[f"x{k}", "|u1", [0]] for k in range(64)]
    assert len(decode(described(*many)).arrays) == 64
    with pytest.raises(WireError, match="65 arrays"):
        decode(described(*many, ["more", "|u1", [0]]))
    assert list(decode(described(["n" * 100, "|u1", [0]])).arrays) == ["n" * 100]
    with pytest.raises(WireError, match="does not travel"):
        decode(described(["n" * 101, "|u1", [0]]))
    assert decode(described(["x", "|u1", [1, 1, 1]], body=b"a")).arrays["x"].shape == (1, 1, 1)
    with pytest.raises(WireError, match="no shape"):
        decode(described(["x", "|u1", [1, 1, 1, 1]], body=b"a"))
    assert decode(described(["x", "|u1", [1 << 30, 0]])).arrays["x"].shape == (1 << 30, 0)
    with pytest.raises(WireError, match="longer than the message"):
        decode(described(["x", "|u1", [(1 << 30) + 1, 0]]))
    with pytest.raises(WireError, match="no shape"):
        decode(described(["x", "|u1", [1 << 48, 0]]))
    with pytest.raises(WireError, match="longer than the message"):
        decode(described(["x", "|u1", [(1 << 48) - 1, 0]]))


@pytest.mark.parametrize("dtype", ["<f8", "<f4", "<i8", "<u8", "|u1"])
def test_an_array_ends_where_the_message_does(dtype):
    size = np.dtype(dtype).itemsize
    body = bytes(range(3 * size))
    found = decode(described(["x", dtype, [3]], body=body)).arrays["x"]
    assert found.dtype == dtype
    assert found.tobytes() == body
    with pytest.raises(WireError, match="longer than the message"):
        decode(described(["x", dtype, [3]], body=body[:-1]))
    with pytest.raises(WireError, match="with 1 bytes more"):
        decode(described(["x", dtype, [3]], body=body + b"x"))
    two = decode(described(["x", dtype, [1]], ["y", dtype, [2]], body=body)).arrays
    assert two["x"].tobytes() + two["y"].tobytes() == body


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ([], "parts kind, fields and arrays"),
        ({"kind": "k", "fields": {}, "arrays": [], "more": 1}, "parts kind, fields and arrays"),
        ({"kind": 1, "fields": {}, "arrays": []}, "wrong type"),
        ({"kind": "k", "fields": {}, "arrays": {}}, "wrong type"),
        ({"kind": "k", "fields": {}, "arrays": ["x"]}, "does not describe"),
        ({"kind": "k", "fields": {}, "arrays": [["x", "<f8"]]}, "does not describe"),
        ({"kind": "k", "fields": {}, "arrays": ["abc"]}, "does not describe"),
        ({"kind": "k", "fields": {}, "arrays": [[1, "<f8", []]]}, "does not travel"),
        ({"kind": "k", "fields": {}, "arrays": [["x", 1, []]]}, "does not travel"),
        ({"kind": "k", "fields": {}, "arrays": [["x", ["<f8"], []]]}, "does not travel"),
        ({"kind": "k", "fields": {}, "arrays": [["x", "<f8", "a"]]}, "has no shape"),
        ({"kind": "k", "fields": {}, "arrays": [["x", "<f8", {}]]}, "has no shape"),
        ({"kind": "k", "fields": {}, "arrays": [["x", "<f8", [1.0]]]}, "has no shape"),
        (b'{"kind": "k", "fields": {"x": Infinity}, "arrays": []}', "not JSON"),
        (b'{"kind": "k", "fields": {"x": "\xff"}, "arrays": []}', "not JSON"),
    ],
)
def test_a_header_of_another_form_is_refused(header, words):
    with pytest.raises(WireError, match=words):
        decode(forged(header, bytes(8)))


def test_numbers_have_63_bits_and_texts_a_length():
    message = Message(
        "ask", {"largest": (1 << 63) - 1, "more": 1 << 63, "zero": 0, "text": "x" * 1000, "long": "x" * 1001}
    )
    assert message.number("largest") == (1 << 63) - 1
    assert message.number("zero") == 0
    with pytest.raises(WireError, match="'more' of a 'ask' message must be a whole number"):
        message.number("more")
    assert message.text("text") == "x" * 1000
    assert message.text("text", 1000) == "x" * 1000
    with pytest.raises(WireError, match="'long' of a 'ask' message must be a text of at most 1000 letters"):
        message.text("long")
    with pytest.raises(WireError, match="at most 999"):
        message.text("text", 999)
    with pytest.raises(WireError, match="must be a text"):
        message.text("zero")
    assert (Message("ask").fields, Message("ask").arrays) == ({}, {})


def test_the_longest_message_is_a_gibibyte(monkeypatch):
    class Long(bytes):
        def __len__(self):
            return (1 << 30) + 1

    with pytest.raises(WireError, match="longer than the 1073741824"):
        decode(Long())
