"""Real Flower processes on loopback: three sites answer, and each way of losing one ends within the deadline."""

import datetime as dt
import subprocess
import threading
import time

import pytest

from fedspca.flower.certificates import make_certificates
from fedspca.flower.commands import FlowerProcessError, free_port
from fedspca.flower.control import SuperLinkControl
from fedspca.flower.executor import CONNECTED
from fedspca.flower.keeping import NodeKeeper
from fedspca.flower.processes import start_gateway, tail

ROUND_TRIP = """
sites = wait_for(channel, 3)
report(sites=sites)
for letter in given["letters"]:
    began = time.monotonic()
    answers = channel.exchange(dict.fromkeys(sites, bytes.fromhex(letter)), 60.0)
    report(answers={name: answer.hex() for name, answer in answers.items()}, failures=channel.failures,
           seconds=time.monotonic() - began)
"""
WAIT = """
def wait_for(channel, count, seconds=40.0):
    end = time.monotonic() + seconds
    while len(channel.sites) < count and time.monotonic() < end:
        time.sleep(0.5)
        channel.refresh()
    return list(channel.sites)
"""
ROUNDS = """
wait_for(channel, 3)
for number in range(given["rounds"]):
    report(ready=number)
    if given.get("gate"):
        while not Path(given["gate"] + str(number)).exists():
            time.sleep(0.1)
    began = time.monotonic()
    answers = channel.exchange(dict.fromkeys(["berlin", "lyon", "oslo"], b"round %d" % number), given["deadline"])
    report(number=number, answered=sorted(answers), failures=channel.failures, seconds=time.monotonic() - began)
"""


def test_three_sites_round_trip(study):
    letters = [b"abc", bytes(range(256))]
    said = study.run(WAIT + ROUND_TRIP, {"letters": [letter.hex() for letter in letters]}).wait()
    assert said[0] == {"sites": ["berlin", "lyon", "oslo"]}
    for letter, round_ in zip(letters, said[1:3], strict=True):
        assert round_["failures"] == {}
        got = {name: bytes.fromhex(answer) for name, answer in round_["answers"].items()}
        assert got == {"berlin": letter, "lyon": letter, "oslo": str(sum(letter)).encode()}


def test_the_network_sees_fleet_and_no_control(study):
    # the same command that works on the SuperLink's own port finds nothing at the gateway
    with SuperLinkControl(study.address, study.certificates.authority) as outside, pytest.raises(FlowerProcessError):
        outside.nodes()
    assert {node.status for node in study.control.nodes()} == {"online"}


def test_a_key_is_registered_once(study):
    with pytest.raises(FlowerProcessError, match="already"):
        study.control.register(study.sites["berlin"].public_key)


def test_a_guard_that_is_down_is_named_at_once(study):
    oslo = study.sites["oslo"]
    run = study.run(WAIT + ROUNDS, {"rounds": 1, "deadline": 60.0, "gate": str(study.folder / "down")})
    run.wait(until=lambda said: said.get("ready") == 0)
    oslo._answer, answer = (lambda letter: 1 / 0), oslo._answer
    study.folder.joinpath("down0").touch()  # a round is asked only now
    said = run.wait()
    oslo._answer = answer
    outcome = next(one for one in said if one.get("number") == 0)
    assert outcome["answered"] == ["berlin", "lyon"]
    assert "ZeroDivisionError" in outcome["failures"]["oslo"]
    assert outcome["seconds"] < 40


class Watched:
    """A site under a ``NodeKeeper``, and what it is told."""

    def __init__(self, site, address, authority):
        self.told, self._stop = [], threading.Event()
        keeper = NodeKeeper(site.supernode, address, authority, self.told.append)
        self._thread = threading.Thread(target=keeper.keep, args=(self._stop,), daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()


def until(condition, seconds=40.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_an_unregistered_key_is_refused_and_let_in_once_registered(study):
    site = study.site("paris", register=False, start=False)
    watched = Watched(site, study.address, study.certificates.authority)
    until(lambda: watched.told)
    assert watched.told[0] == "not connected: the coordinator has not registered this site's key yet"
    assert CONNECTED not in tail(site.supernode.log, 1000)
    node_id = study.control.register(site.public_key)
    until(lambda: watched.told[-1] == "connected")
    watched.stop()
    study.control.unregister(node_id)


def test_a_server_of_another_authority_is_not_spoken_to(study):
    other = make_certificates(study.folder / "other", ["127.0.0.1"])
    site = study.site("rome", register=True, start=False, authority=other.authority)
    watched = Watched(site, study.address, other.authority)
    until(lambda: "handshake error" in tail(site.supernode.log, 1000))
    watched.stop()
    assert all("not signed by this study's authority" in words for words in watched.told)
    assert CONNECTED not in tail(site.supernode.log, 1000)
    study.control.unregister(site.node_id)


def test_an_expired_certificate_is_not_spoken_to(study, tmp_path):
    past = dt.datetime.now(dt.UTC) - dt.timedelta(days=10)
    expired = make_certificates(study.folder / "expired", ["127.0.0.1"], days=5, start=past)
    port = free_port()
    address = f"127.0.0.1:{port}"
    site = study.site("wien", register=True, start=False, authority=expired.authority, address=address)
    gateway = start_gateway(tmp_path, expired, port, study.port, "127.0.0.1")
    try:
        watched = Watched(site, address, expired.authority)
        until(lambda: "handshake error" in tail(site.supernode.log, 1000))
        watched.stop()
    finally:
        gateway.stop()
    assert all("has expired" in words for words in watched.told)
    assert CONNECTED not in tail(site.supernode.log, 1000)
    study.control.unregister(site.node_id)


def test_sites_killed_before_during_and_after_their_answer_are_absent_and_return(study):
    berlin, lyon, oslo = (study.sites[name] for name in ("berlin", "lyon", "oslo"))
    gate, deadline = study.folder / "gate", 25.0
    run = study.run(WAIT + ROUNDS, {"rounds": 4, "deadline": deadline, "gate": str(gate)})

    def outcome(number):
        study.folder.joinpath(f"gate{number}").touch()
        said = run.wait(until=lambda said: said.get("number") == number)
        return next(one for one in said if one.get("number") == number)

    assert outcome(0)["answered"] == ["berlin", "lyon", "oslo"]
    lyon.supernode.kill()  # before
    lost = outcome(1)
    assert lost["answered"] == ["berlin", "oslo"]
    assert set(lost["failures"]) == {"lyon"}
    assert lost["seconds"] < deadline + 3
    answer = oslo._answer
    oslo._answer = lambda letter: oslo.supernode.kill() or letter  # during
    lost = outcome(2)
    oslo._answer = answer
    assert lost["answered"] == ["berlin"]
    assert set(lost["failures"]) == {"lyon", "oslo"}
    assert lost["seconds"] < deadline + 3
    berlin.supernode.kill()  # after
    lost = outcome(3)
    assert lost["answered"] == []
    assert lost["seconds"] < deadline + 3
    run.wait()

    watched = [Watched(site, study.address, study.certificates.authority) for site in (berlin, lyon, oslo)]
    until(lambda: all(one.told and one.told[-1] == "connected" for one in watched), 120.0)
    assert any("earlier connection" in one.told[0] for one in watched)
    said = study.run(WAIT + ROUND_TRIP, {"letters": ["00"]}).wait()
    assert sorted(said[1]["answers"]) == ["berlin", "lyon", "oslo"]
    for one in watched:
        one.stop()
    for site in (berlin, lyon, oslo):
        site.supernode.start()  # it was stopped in good order, so it is let in at once


def test_a_superlink_killed_and_started_again_finds_its_sites(study):
    run = study.run(WAIT + ROUNDS, {"rounds": 50, "deadline": 30.0})
    run.wait(until=lambda said: said.get("number") == 0)
    study.superlink.kill()
    time.sleep(2)
    study.restart_superlink()
    said = study.run(WAIT + ROUND_TRIP, {"letters": ["00"]}).wait()
    assert sorted(said[1]["answers"]) == ["berlin", "lyon", "oslo"]
    assert study.control.wait_for_run(run.run_id, 60).status == "finished:failed"


def test_nothing_is_left_when_all_is_stopped(study):
    # last in this file: it ends the study of the session
    pids = [
        study.superlink.pid,
        study.gateway.pid,
        *(study.sites[name].supernode.pid for name in ("berlin", "lyon", "oslo")),
    ]
    assert all(pids), tail(study.superlink.log)
    study.stop()
    marker = str(study.folder)
    running = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True).stdout
    assert marker not in running
