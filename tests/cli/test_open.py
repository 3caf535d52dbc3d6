"""Pages and units that commands write, and how a site or a study ends."""

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

pytest.importorskip("cryptography")

from fedspca.door.agreement import roster_phrase
from fedspca.federation.channel import LocalChannel
from fedspca.study.coordinator import StudyFolder
from fedspca.study.owner import SiteFolder
from fedspca.study.run import run_study
from helpers.commands import fedspca
from helpers.studies import SITES, join, study, write_tables


@pytest.fixture
def between(tmp_path, monkeypatch):
    monkeypatch.chdir(write_tables(tmp_path))
    folder = StudyFolder.create(tmp_path / "heart", study())
    sites = {name: join(folder, tmp_path, name) for name in SITES}
    run_study(folder, LocalChannel({name: site.endpoint() for name, site in sites.items()}), "status")
    return folder, sites


def test_units_are_written_with_how_to_install_them(between, tmp_path):
    told = fedspca("site", "service", "--site", "north", "--account", "fedspca", "-o", "units")
    assert told.code == 0, told.err
    assert "sudo systemctl enable --now fedspca-site-north.service" in told.out
    assert f"--site {tmp_path / 'north'}" in (tmp_path / "units" / "fedspca-site-north.service").read_text()
    assert "enable-linger" in fedspca("study", "service", "heart").out
    assert (tmp_path / "fedspca-study-trial.service").exists()


def test_the_address_is_told_and_nothing_else_opens_the_page(between, monkeypatch):
    pytest.importorskip("starlette")
    served = []
    monkeypatch.setattr(
        "fedspca.study.page.open_page", lambda page, tell, port: (served.append(page), tell("http://x"))
    )
    told = fedspca("site", "open", "--site", "north", "--no-browser")
    assert told.out == "http://x\n"
    assert "once" in told.err
    assert roster_phrase(between[0].agreement()) in served[0].parts()["study"]
    assert fedspca("study", "open", "heart", "--no-browser").out == "http://x\n"
    assert "Ask" not in served[1].parts()["sites"]  # the server does not run


def test_the_token_is_in_no_command_line(between, monkeypatch):
    """Every account of a machine reads the arguments of all processes, and could be quicker than the browser."""
    pytest.importorskip("starlette")
    opened = []

    def browse(address):
        path = Path(url2pathname(urlsplit(address).path))
        opened.append(
            (address, path, path.read_text(), path.stat().st_mode & 0o077, path.parent.stat().st_mode & 0o077)
        )
        return True

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setattr("fedspca.study.page.open_page", lambda page, tell, port: tell("http://127.0.0.1:1/#token"))
    assert fedspca("site", "open", "--site", "north").code == 0
    ((address, path, text, file_mode, folder_mode),) = opened
    assert "token" not in address
    assert "url=http://127.0.0.1:1/#token" in text
    assert file_mode == folder_mode == 0
    assert not path.parent.exists()


def test_a_site_that_leaves_forgets_the_study_and_keeps_what_it_let_out(between, tmp_path):
    folder, sites = between
    north = sites["north"]
    agreement = folder.agreement()
    north.store.approve(agreement)
    lines = north.audit().verify()
    assert fedspca("site", "leave", "--site", "north", "--yes").code == 0
    again = SiteFolder(tmp_path / "north")
    assert again.audit().verify() == lines
    assert again.store.approved(agreement.hash) is None
    assert "no invitation yet" in fedspca("site", "show", "--site", "north").err
    other = StudyFolder.create(tmp_path / "lung", study(name="lung"))
    assert again.join(other.path / "invitations" / "north.invitation").study == "lung"
    assert "No study was proposed" in fedspca("site", "show", "--site", "north").err
    assert [study.hash for study in again.store.studies()] == [agreement.hash]  # another study is compared with it


def test_a_study_is_removed_when_a_person_says_so(between, tmp_path):
    assert fedspca("study", "remove", "east").code == 2  # no study
    pytest.importorskip("flwr")
    assert fedspca("study", "remove", "heart", "--yes").code == 0
    assert not (tmp_path / "heart").exists()


def test_the_doctor_says_what_is_wrong_and_the_exit_code_too(between):
    pytest.importorskip("flwr")
    told = fedspca("site", "doctor", "--site", "north")
    assert told.code == 1
    assert "well  data: 25 rows, 6 features" in told.out
    assert "WRONG guard: the site does not run" in told.out
    assert "WRONG network: nothing listens at localhost" in told.out
