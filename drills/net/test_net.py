"""A study between machines: NAT, a proxy, cut cables, slow lines, a loss of power. The result is one process's."""

import time

import numpy as np

from fedspca import ExactSPCA
from fedspca.model import SparsePCAModel


def components(study):
    return SparsePCAModel.load(study.folder.model).components


def finished(study, run, seconds=400):
    said = run.communicate(timeout=seconds)[0]
    assert run.returncode == 0, said
    rows = np.vstack([study.data[name] for name in study.sites])
    owners = np.repeat(study.sites, [len(study.data[name]) for name in study.sites])
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(rows, sites=owners)
    assert np.abs(components(study) - here.components_).max() < 1e-8
    return said


def told_within(study, name, words, seconds):
    """Wait until a site says something, and say how long it took."""
    began, before = time.monotonic(), len(study.told(name))
    while words not in study.told(name)[before:]:
        assert time.monotonic() - began < seconds, study.told(name)
        time.sleep(0.2)
    return time.monotonic() - began


def test_through_nat_and_a_proxy_with_a_password(apart):
    finished(apart, apart.start("study", "run", "trial"))
    assert "through the proxy 10.77.2.1:3128" in apart.run("site", "doctor", "--site", "east")
    assert "s%3Acret" not in apart.told("east")


def test_a_proxy_that_dies_is_named_within_half_a_minute_and_the_site_comes_back(apart):
    apart.net.stop_proxy()
    told_within(apart, "east", "the proxy 10.77.2.1:3128 cannot be used", 30)
    said = apart.run("site", "doctor", "--site", "east", code=1)
    assert "WRONG network: the proxy 10.77.2.1:3128" in said
    apart.net.start_proxy(delay=0.05)  # and from now on each piece takes its time, as over a long line
    told_within(apart, "east", "connected", 60)
    finished(apart, apart.start("study", "run", "trial"))


def test_a_cable_that_is_pulled_in_each_stage(apart):
    run = apart.start("study", "run", "trial")
    for kind in ("keys", "shares", "masked", "unmask"):
        apart.wait(lambda kind=kind: apart.answered("south", kind) or run.poll() is not None, 240)
        apart.net.cut("north")
        time.sleep(2)
        apart.net.mend("north")
    finished(apart, run)


def test_a_slow_line_and_a_loss_of_power(apart):
    apart.net.slow("north", "1mbit")
    run = apart.start("study", "run", "trial")
    apart.wait(lambda: apart.kept() >= 2 or run.poll() is not None, 240)
    apart.net.power_off("south")
    apart.people.pop("south").wait()
    apart.join("south")
    finished(apart, run)
