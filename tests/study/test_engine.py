import socket

import pytest

from fedspca.study.coordinator import StudyFolder
from helpers.studies import study

engine = pytest.importorskip("fedspca.study.engine", exc_type=ImportError)


def test_a_port_that_is_taken_is_named(files):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        for name in ("port", "control_port"):
            folder = StudyFolder.create(files / name, study(**{"port": 1, "control_port": 1, name: number}))
            with pytest.raises(OSError, match=f"Port {number} of this machine is in use.*another {name} in"):
                engine.Engine(folder).start()
            assert not folder.flower.exists()  # nothing was started beside it
