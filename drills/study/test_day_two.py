"""What an administrator meets on day two: full disks, killed processes, reboots, what listens and what `ps` shows."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from fedspca.flower.processes import running
from fedspca.model import SparsePCAModel


@pytest.fixture
def approved(three):
    three.change()
    return three


def components(study):
    return SparsePCAModel.load(study.home / "trial" / "model").components.tobytes()


def small_disk(place):
    """A disk of its own around what is in a folder."""
    if os.geteuid() != 0:
        pytest.skip("no disk can be mounted without root")
    content = subprocess.run(["tar", "-C", place, "-c", "."], capture_output=True, check=True).stdout
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "tmpfs", place], check=True)
    subprocess.run(["tar", "-C", place, "-x"], input=content, check=True)


def move_back(place):
    content = subprocess.run(["tar", "-C", place, "-c", "."], capture_output=True, check=True).stdout
    subprocess.run(["umount", "-l", place], check=True)
    subprocess.run(["tar", "-C", place, "-x"], input=content, check=True)


def fill(place):
    with (place / "ballast").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def listening(pid):
    """The addresses at which a process accepts connections over TCP, as the system tells them."""
    own = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in own:
                host, port = fields[1].split(":")
                found.add((host, int(port, 16)))
    return found


def test_what_listens_and_what_ps_shows(approved):
    site = running(approved.home / "north" / "flower", "supernode")
    assert listening(approved.people["north"].pid) == set()
    assert listening(site) == set()
    port, control = approved.ports
    assert listening(running(approved.folder.flower, "gateway")) == {("0" * 32, port)}  # of IPv6, and so of IPv4 too
    superlink = {place for place in listening(running(approved.folder.flower, "superlink")) if place[1] == control}
    assert superlink == {("0100007F", control)}
    secrets = [approved.folder.secret.read_text(errors="replace"), "--token", "PRIVATE KEY"]
    run = approved.start("study", "run", "trial")
    approved.wait(lambda: approved.server_app() or run.poll() is not None)
    said = subprocess.run(["ps", "-ewwo", "args="], capture_output=True, text=True, check=True).stdout
    assert not [secret for secret in secrets if secret in said]
    told = run.communicate(timeout=400)[0]
    assert run.returncode == 0, told
    asked = [line for line in told.splitlines() if line.startswith("question ")]
    facts = SparsePCAModel.load(approved.folder.model).facts
    assert len(asked) == len(facts["history"]) + len(facts["asked_after"])  # no minute of silence after the fit
    assert "of about 5" in asked[0]
    assert "left" in asked[0]
    type(approved).bits = components(approved)
    assert "has finished" in approved.run("study", "resume", "trial")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_the_node_ends_with_its_guard_and_the_site_joins_again(approved, number):
    guard, home = approved.people.pop("north"), approved.home / "north"
    node = running(home / "flower", "supernode")
    guard.send_signal(number)
    guard.wait(30)
    approved.wait(lambda: not Path(f"/proc/{node}").exists(), 30)
    assert "Not running" in approved.run("site", "status", "--site", "north", code=3)
    approved.back("north")
    status = json.loads(approved.run("site", "status", "--site", "north", "--json"))
    assert (status["connected"], status["trouble"]) == (True, None)
    approved.run("site", "stop", "--site", "north")
    approved.people.pop("north").wait(30)
    assert running(home / "flower", "supernode") is None
    assert not list(home.glob("flower/guard.socket"))


def test_after_a_reboot_the_run_waits_for_sites_and_says_for_whom(approved):
    approved.kill("north", node=False)
    run = approved.start("study", "run", "trial")
    approved.wait(lambda: "Waiting up to" in (approved.folder.path / "events.jsonl").read_text().splitlines()[-1])
    approved.join("north")
    said = run.communicate(timeout=300)[0]
    assert run.returncode == 0, said
    assert "north" in said.split("Waiting up to", 1)[1].splitlines()[0]
    assert components(approved) == approved.bits


def test_a_killed_command_is_taken_up_again_where_the_run_is(approved):
    run = approved.start("study", "run", "trial")
    approved.wait(lambda: approved.kept() >= 1, 240)
    conductor = approved.server_app()
    run.kill()
    run.communicate()
    said = approved.run("study", "resume", "trial")
    assert "The run goes on" in said or "has finished" in said
    assert "question 1 of about 5" in said or "has finished" in said
    assert approved.server_app() in ([], conductor)  # it was not begun anew
    assert components(approved) == approved.bits


def test_a_full_disk_at_a_site_is_told_on_both_sides_and_the_site_goes_on(approved):
    place = approved.home / "north"
    approved.run("site", "stop", "--site", "north")
    approved.people.pop("north").wait()
    small_disk(place)
    try:
        approved.back("north")
        fill(place)
        said = approved.run("study", "status", "trial")
        assert "here, but failing: disk full at site north" in said
        assert f"disk full at {place}" in approved.told("north")
        assert "Traceback" not in approved.told("north")
        assert "disk full" in approved.run("site", "status", "--site", "north", code=1)
        run = approved.start("study", "run", "trial")
        time.sleep(3)
        (place / "ballast").unlink()
        told = run.communicate(timeout=300)[0]
        assert run.returncode == 0, told
        assert components(approved) == approved.bits
        assert "unbroken" in approved.run("site", "log", "--site", "north", "--verify")
    finally:
        approved.run("site", "stop", "--site", "north")
        approved.people.pop("north").wait()
        move_back(place)


def test_a_full_disk_at_the_coordinator_is_told_with_file_and_space_and_the_run_resumes(approved):
    place = approved.folder.path
    approved.run("study", "stop", "trial")
    small_disk(place)
    try:
        approved.run("study", "start", "trial")
        run = approved.start("study", "run", "trial")
        approved.wait(lambda: approved.kept() >= 1, 240)
        fill(place)
        said = run.communicate(timeout=300)[0]
        assert run.returncode == 2, said
        for words in (f"disk full at {place}", "could not be written", "MB are free", "study resume"):
            assert words in said
        assert "Traceback" not in said
        (place / "ballast").unlink()
        approved.run("study", "start", "trial")
        approved.run("study", "resume", "trial")
        assert components(approved) == approved.bits
    finally:
        approved.run("study", "stop", "trial")
        move_back(place)
        approved.run("study", "start", "trial")
