"""A short run of the fuzzer, the same one each time; ``make fuzz`` runs it for as long as you like."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("seed", [0])
def test_whatever_is_read_the_error_says_what_is_wrong(seed):
    command = [sys.executable, str(Path(__file__).with_name("decoders.py")), "20", str(seed)]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Every error says what is wrong" in done.stdout
