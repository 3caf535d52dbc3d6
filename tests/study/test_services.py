"""Units that systemd accepts, whatever a folder or a study is called, and that shut the service in."""

import re
import shutil
import subprocess

import pytest

from fedspca.study.services import site_service, study_service

HOSTILE = "heart\n[Service]\nExecStart=/bin/evil %n $HOME"
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def units(folder, name="heart"):
    return [
        site_service(folder, "north", name, None),
        site_service(folder, "north", name, "root"),
        study_service(folder, name, "root"),
    ]


def analyzed(unit, folder, *arguments):
    path = folder / unit.name
    path.write_text(unit.text)
    return subprocess.run(["systemd-analyze", *arguments, path], capture_output=True, text=True, check=False)


@needs_systemd
@pytest.mark.parametrize("place", ["site", 'a "folder" with 100 % $HOME'])
def test_systemd_accepts_them(tmp_path, place):
    folder = tmp_path / place
    folder.mkdir()
    for unit in units(folder, HOSTILE):
        said = analyzed(unit, tmp_path, "verify", "--man=no")
        assert (said.returncode, said.stderr) == (0, "")


@needs_systemd
def test_they_are_shut_in(tmp_path):
    """By systemd's own measure, from 0 (safe) to 10: an ordinary service has more than 9."""
    said = analyzed(units(tmp_path)[1], tmp_path, "security", "--offline=true", "--no-pager")
    exposure = float(re.search(r"level for .*: ([0-9.]+)", said.stdout)[1])
    assert exposure < 4


def test_a_hostile_name_stays_on_its_line(tmp_path):
    for unit in units(tmp_path, HOSTILE):
        assert unit.text.count("\n[Service]\n") == 1
        assert len(re.findall("^ExecStart=", unit.text, re.M)) == 1
        assert "/" not in unit.name
        assert "%%n" in unit.text


def test_what_it_writes_and_runs(tmp_path):
    mine, systems, study = units(tmp_path)
    assert f"ReadWritePaths={tmp_path}\n" in systems.text
    assert not {"CapabilityBoundingSet", "ProtectSystem"} & set(re.findall("^([A-Za-z]+)=", mine.text, re.M))
    assert f"-m fedspca site join --site {tmp_path}\n" in mine.text
    assert f"-m fedspca study serve {tmp_path}\n" in study.text
    assert "User=root" in systems.text
    assert "User=" not in mine.text
    assert any("enable-linger" in line for line in mine.install)
    with pytest.raises(ValueError, match="cannot be printed"):
        site_service(tmp_path / "a\nb", "north", "heart", None)
