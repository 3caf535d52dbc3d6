"""The guard's door: letters in, answers out, and nothing that a peer does brings it down."""

import contextlib
import socket
import stat
import struct
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedspca.flower import relay
from fedspca.flower.relay import HEADER, LETTER, Relay, RelayError, forward


@pytest.fixture
def door(tmp_path_factory):
    """Starts guards on short paths and stops them all."""
    started = []

    def start(handle=lambda letter: letter[::-1], **settings):
        path = tmp_path_factory.mktemp("g") / "s"
        started.append(Relay(handle, path, **{"max_bytes": 1 << 20, "timeout": 2.0} | settings))
        return path

    yield start
    for guard in started:
        guard.stop()


def raw(path, sent, *, shut=True):
    """What the guard answers to these bytes."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        connection.sendall(sent)
        if shut:
            connection.shutdown(socket.SHUT_WR)
        pieces = []
        with contextlib.suppress(ConnectionResetError):  # it hung up on what it did not read
            while piece := connection.recv(1 << 16):
                pieces.append(piece)
        return b"".join(pieces)


@pytest.mark.parametrize("letter", [b"", b"abc", bytes(range(256)) * 4096])
def test_a_letter_goes_there_and_back(door, letter):
    assert forward(door(), letter) == letter[::-1]


def test_only_this_account_may_connect(door):
    path = door()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(door(mode=0o660).stat().st_mode) == 0o660


def test_a_folder_made_for_it_is_private(tmp_path_factory):
    path = tmp_path_factory.mktemp("g") / "new" / "s"
    with Relay(bytes, path):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


def test_a_letter_that_is_too_long_is_refused_before_it_is_read(door):
    path = door(max_bytes=10)
    for length in (11, 10_000_000):
        with pytest.raises(RelayError, match=f"has {length} bytes; at most 10"):
            forward(path, b"x" * length)
    answer = raw(path, HEADER.pack(LETTER, 2**63))  # no such memory is taken
    assert b"at most 10" in answer


def test_an_answer_that_is_too_long_does_not_leave(door):
    with pytest.raises(RelayError, match="at most 10 may leave"):
        forward(door(lambda _: b"x" * 11, max_bytes=10), b"x")


def test_what_goes_wrong_in_the_guard_stays_there(door, caplog):
    def fail(letter):
        raise ValueError("row 17 of patient Smith")

    path = door(fail)
    for _ in range(2):  # it goes on after the first
        with pytest.raises(RelayError, match=r"failed on the letter \(ValueError\)") as raised:
            forward(path, b"x")
        assert "Smith" not in str(raised.value)
    assert "Smith" in caplog.text


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"L",
        b"GET / HTTP/1.1\r\n\r\n",
        HEADER.pack(b"X", 1) + b"x",
        HEADER.pack(LETTER, 100) + b"short",
        b"\xff" * 9,
    ],
)
def test_hostile_frames_are_refused_and_the_guard_goes_on(door, hostile):
    path = door()
    answer = raw(path, hostile)
    assert answer.startswith(relay.FAILURE)
    assert forward(path, b"ab") == b"ba"


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=64))
def test_no_bytes_bring_it_down(tmp_path_factory, hostile):
    path = tmp_path_factory.mktemp("g") / "s"
    with Relay(bytes, path, 1000, timeout=2.0):
        raw(path, hostile)
        assert forward(path, b"ab") == b"ab"


def test_a_peer_that_stalls_loses_its_connection_but_holds_up_nobody(door):
    path = door(timeout=0.5)
    stalled = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    for connection in stalled:
        connection.connect(str(path))
        connection.sendall(HEADER.pack(LETTER, 10))
    assert forward(path, b"ab") == b"ba"
    for connection in stalled:
        connection.settimeout(5)
        assert connection.recv(100) == b""  # it was hung up on
        connection.close()


def test_one_letter_is_handled_at_a_time(door):
    busy, seen = threading.Lock(), []

    def handle(letter):
        assert busy.acquire(blocking=False)
        time.sleep(0.02)
        busy.release()
        seen.append(letter)
        return letter

    path = door(handle)
    threads = [threading.Thread(target=forward, args=(path, bytes([n]))) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [bytes([n]) for n in range(6)]


def test_too_many_connections_are_hung_up_on(door):
    path = door(timeout=5.0)
    idle = [socket.socket(socket.AF_UNIX) for _ in range(relay.MAX_CONNECTIONS)]
    for connection in idle:
        connection.connect(str(path))
    time.sleep(0.2)
    with pytest.raises(RelayError):
        forward(path, b"ab", timeout=5)
    for connection in idle:
        connection.close()
    time.sleep(0.2)
    assert forward(path, b"ab") == b"ba"


def test_nobody_there(tmp_path_factory):
    with pytest.raises(RelayError, match="cannot be reached"):
        forward(tmp_path_factory.mktemp("g") / "s", b"x")


def test_a_guard_that_takes_too_long(door):
    with pytest.raises(RelayError, match="did not answer within 0 seconds"):
        forward(door(lambda letter: time.sleep(1) or letter), b"x", timeout=0.2)


def test_a_socket_left_behind_is_replaced_but_a_living_guard_and_a_file_are_not(door, tmp_path_factory):
    left = tmp_path_factory.mktemp("g") / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(left))
    with Relay(bytes, left):
        assert forward(left, b"a") == b"a"
    with pytest.raises(RelayError, match="another guard"):
        Relay(bytes, door())
    left.write_text("notes")
    with pytest.raises(RelayError, match="not a socket"):
        Relay(bytes, left)
    assert left.read_text() == "notes"


def test_a_path_too_long_for_the_system_is_named(tmp_path):
    with pytest.raises(RelayError, match="shorter one"):
        Relay(bytes, tmp_path / ("x" * 120))


def test_a_frame_is_as_documented(door):
    assert raw(door(), b"L" + struct.pack(">Q", 2) + b"ab") == b"L" + struct.pack(">Q", 2) + b"ba"
