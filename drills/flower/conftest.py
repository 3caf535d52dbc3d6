"""One study for all drills of a session, since its processes take ten seconds to start."""

import shutil
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from flower_study import DrillStudy


@pytest.fixture(scope="session")
def short_folder():
    """A folder with a short path, since a Unix socket's path has at most some hundred bytes."""
    folder = Path(tempfile.mkdtemp(prefix="fs-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def study(short_folder):
    """A study with three sites: two echo, one computes."""
    made = DrillStudy(short_folder / "a")
    try:
        made.site("berlin")
        made.site("lyon")
        made.site("oslo", lambda letter: str(sum(letter)).encode())
        yield made
    finally:
        made.stop()
