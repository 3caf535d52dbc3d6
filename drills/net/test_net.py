"""A study between machines: NAT, proxies, cut, slow and lossy lines, wrong clocks. The result is one process's."""

import time

import numpy as np

from fedspca import ExactSPCA
from fedspca.flower.certificates import make_certificates
from fedspca.model import SparsePCAModel
from namespaces import COORDINATOR, COORDINATOR_6


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
    apart.net.fast("north")


def test_packets_that_are_lost(apart):
    for name in ("north", "coordinator"):
        apart.net.lose(name, 3)
    finished(apart, apart.start("study", "run", "trial"))
    for name in ("north", "coordinator"):
        apart.net.lose(name, 0)


def test_a_clock_that_is_wrong(apart):
    """Two minutes behind is borne. Half a minute ahead, Flower's server refuses the node: the site says why."""

    def wrong(offset):
        apart.set_clock("south", offset)
        apart.kill("south")
        apart.join("south")

    try:
        wrong("-2m")
        apart.wait(lambda: apart.here("south"))
        assert "well  clock" in apart.run("site", "doctor", "--site", "south")
        finished(apart, apart.start("study", "run", "trial"))
        for offset, words in (("+30s", "s ahead of the coordinator's"), ("-1d", "not valid yet; check the clock")):
            wrong(offset)
            apart.wait(lambda words=words: words in apart.told("south"))
            assert words in apart.run("site", "doctor", "--site", "south", code=1)
    finally:
        wrong(None)
    apart.wait(lambda: apart.here("south"))


def test_two_coordinators_at_once(apart, other):
    """A site's folder is of one study. With a folder for each, both studies run on the same machines."""
    refused = apart.run("site", "join", other.home / "trial/invitations/north.invitation", "--site", "north", code=2)
    assert "took part in another study, with another coordinator" in refused
    other.approve()
    runs = [study.start("study", "run", "trial") for study in (apart, other)]
    for study, run in zip((apart, other), runs, strict=True):
        finished(study, run)


def test_the_server_moves_to_ipv6(apart):
    apart.reached_at(COORDINATOR_6)
    assert f"{COORDINATOR_6}" in apart.run("site", "doctor", "--site", "south")
    finished(apart, apart.start("study", "run", "trial"))


def test_a_certificate_of_the_institutions_own_and_a_name_whose_address_changes(apart):
    apart.net.name("pca.test", COORDINATOR)
    own = make_certificates(apart.home / "hospital", ["pca.test"], "hospital")
    files = ("--authority", str(own.authority), "--certificate", str(own.certificate), "--key", str(own.key))
    apart.reached_at("pca.test", *files)
    run = apart.start("study", "run", "trial")
    apart.wait(lambda: apart.kept() >= 1 or run.poll() is not None, 240)
    apart.net.move("coordinator", COORDINATOR, "10.77.0.20")
    apart.net.name("pca.test", "10.77.0.20")
    finished(apart, run)
