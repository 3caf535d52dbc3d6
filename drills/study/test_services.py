"""The units under a real systemd: they start, are started again after a crash, and the study goes on."""

import os
import re
import signal
import tempfile
from pathlib import Path

import pytest

from fedspca.model import SparsePCAModel
from fedspca.study.services import site_service
from managers import Manager, obstacle

reason = obstacle()
pytestmark = pytest.mark.skipif(reason is not None, reason=reason or "")


@pytest.fixture(params=["root", "nobody"])
def manager(request):
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        made = Manager(home, request.param)
        made.account = request.param
        yield made
        made.close()


def test_what_is_in_a_unit_is_enforced_or_at_least_accepted(manager):
    """A unit of the system, as only root's manager can run it, and one of a user, who cannot do as much."""
    folder = Path(tempfile.mkdtemp(prefix="fs-", dir="/var/lib"))
    folder.chmod(0o777)
    (folder / "site").mkdir()
    (folder / "site").chmod(0o777)
    try:
        system = "nobody" if manager.account == "root" else None
        unit = site_service(folder / "site", "north", "trial", system)
        script = f"touch {folder}/site/inside; touch {folder}/outside; exec sleep 600"
        text = re.sub("^ExecStart=.*$", f"ExecStart=/bin/sh -c '{script}'", unit.text, flags=re.M)
        (manager.units / unit.name).write_text(text.replace("RestartSec=10", "RestartSec=1"))
        manager.start(unit.name)
        manager.until((folder / "site" / "inside").exists, manager.control("status", unit.name))
        assert (folder / "outside").exists() is (system is None)
        manager.control("stop", unit.name)
    finally:
        for path in (folder / "site" / "inside", folder / "outside"):
            path.unlink(missing_ok=True)
        (folder / "site").rmdir()
        folder.rmdir()


def test_a_site_that_is_a_service_comes_back_after_a_crash_and_the_study_runs(manager, three):
    if manager.account != "root":
        pytest.skip("the other account cannot read the folders of this drill")
    three.change()
    three.kill("north")
    three.run("site", "service", "--site", "north", "-o", str(manager.units))
    unit = manager.units / "fedspca-site-north.service"
    unit.write_text(unit.read_text().replace("RestartSec=10", "RestartSec=1"))
    manager.start(unit.name)

    def connected():
        return '"connected": true' in three.run("site", "status", "--site", "north", "--json", code=None)

    three.wait(connected, 120)
    first = manager.main(unit.name)
    os.kill(first, signal.SIGKILL)
    three.wait(lambda: manager.main(unit.name) not in (0, first) and connected(), 120)
    three.run("study", "run", "trial")
    assert SparsePCAModel.load(three.folder.model).n_sites == 3
    manager.control("stop", unit.name)
    three.back("north")
