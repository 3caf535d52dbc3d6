import tempfile
import threading
import time
from pathlib import Path

from fedspca.flower.relay import forward
from fedspca.letters.identity import signed_payload
from fedspca.letters.wire import Message, decode, encode
from fedspca.study.guard import keep_guard


def test_the_guard_alone_answers_at_its_socket(between):
    folder, sites, _ = between
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="fs-") as home:
        socket = Path(home) / "guard"
        guard = threading.Thread(target=keep_guard, args=(sites["north"], socket, lambda line: None, stop))
        guard.start()
        try:
            until = time.monotonic() + 20
            while not socket.exists() and time.monotonic() < until:
                time.sleep(0.02)
            hello = folder.identity.sign(encode(Message("hello", {"study": ""})))
            answer = decode(signed_payload(forward(socket, hello), sites["north"].identity.public, "north"))
        finally:
            stop.set()
            guard.join()
    assert (answer.kind, answer.fields["sender"]) == ("hello", "north")
