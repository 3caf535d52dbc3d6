"""Data that many tests share. Nothing is downloaded."""

import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import settings

from fedspca.experiments.data import wdbc_star

# examples are drawn the same way each run, so that a failure can be repeated; deadlines would measure the machine
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def wdbc():
    """WDBC* as it comes."""
    return wdbc_star().rows


@pytest.fixture(scope="session")
def wdbc_standardised(wdbc):
    """WDBC*, pooled and standardised with numpy: what the federation must never form and yet agree with."""
    return (wdbc - wdbc.mean(axis=0)) / wdbc.std(axis=0, ddof=1)


@pytest.fixture
def rows():
    """A small table with two clear directions and unlike scales and means."""
    rng = np.random.default_rng(0)
    spikes = rng.standard_normal((60, 2)) * [5.0, 3.0]
    loadings = np.zeros((2, 12))
    loadings[0, :4], loadings[1, 4:8] = 0.5, 0.5
    noise = 0.5 * rng.standard_normal((60, 12))
    return (spikes @ loadings + noise) * np.linspace(0.5, 2.0, 12) + np.arange(12)


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own of 256 kB, to be filled."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here: that needs Linux, and root or the like")
    yield place
    subprocess.run(["umount", str(place)], check=True)
