"""What is wrong at a site, found one thing at a time."""

import os
import time

import pytest

pytest.importorskip("cryptography")

from fedspca.flower import reaching
from fedspca.flower.reaching import Unreachable
from fedspca.study import doctor
from fedspca.study.doctor import examine


@pytest.fixture
def north(between, monkeypatch):
    monkeypatch.setattr(doctor, "check_flower", lambda: None)
    set_clock(monkeypatch, lambda *_: time.time())
    return between[1]["north"]


def set_clock(monkeypatch, there):
    for module in (doctor, reaching):
        monkeypatch.setattr(module, "clock_of", there)


def found(site):
    return {finding.name: finding for finding in examine(site)}


def wrong(site):
    return {name: finding.words for name, finding in found(site).items() if not finding.well}


def test_a_site_where_all_is_well_but_nobody_runs_it(north):
    assert wrong(north) == {"guard": "the site does not run: fedspca site join"}
    assert "25 rows, 6 features" in found(north)["data"].words


def test_each_thing_that_may_be_wrong_is_said(north, monkeypatch):
    (north.path / "identity.key").chmod(0o644)
    assert "others may read" in wrong(north)["rights"]
    os.truncate(north.path / "policy.toml", 3)
    assert "policy" in wrong(north)
    (north.path / "log.jsonl").write_text("nonsense\n")
    assert "not a line of the log" in wrong(north)["log"]
    monkeypatch.setattr(doctor, "LITTLE", 1 << 60)
    assert "MB are free" in wrong(north)["disk"]
    set_clock(monkeypatch, lambda *_: time.time() - 10)
    assert "10 s ahead of" in wrong(north)["clock"]
    set_clock(monkeypatch, lambda *_: time.time() + 200)
    assert "clock" not in wrong(north)
    set_clock(monkeypatch, lambda *_: time.time() + 400)
    assert "400 s behind" in wrong(north)["clock"]

    def unreachable(*_):
        raise Unreachable("the proxy proxy:3128 asks for a name and a password")

    set_clock(monkeypatch, unreachable)
    assert "asks for a name" in wrong(north)["network"]
    assert "not reached" in wrong(north)["clock"]
    (north.path / "invitation").unlink()
    assert "no invitation yet" in wrong(north)["invitation"]
