"""A proposal after the approval, and "sites" that are the coordinator's own."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedspca.cli.app import app
from fedspca.door.agreement import roster_phrase
from fedspca.fit.settings import FitSettings
from fedspca.letters.identity import Identity
from fedspca.study.coordinator import StudyFolder
from fedspca.study.owner import SiteFolder
from fedspca.study.settings import StudySettings
from fedspca.study.words import in_words

SITES = ("east", "north", "south")


@pytest.fixture
def north(tmp_path):
    """The folder of one site, and the terms of a study that were proposed to it."""
    folder = StudyFolder.create(tmp_path / "trial", StudySettings(name="trial", sites=SITES, nonzero=2))
    for name in SITES:
        rows = np.random.default_rng(len(name)).standard_normal((30, 4))
        pd.DataFrame(rows, columns=list("abcd")).to_csv(tmp_path / f"{name}.csv", index=False)
        site = SiteFolder.create(tmp_path / name, FitSettings(files=(str(tmp_path / f"{name}.csv"),)))
        site.join(folder.path / "invitations" / f"{name}.invitation")
        folder.admit(site.reply_file(name))
    site = SiteFolder(tmp_path / "north")
    site.store.propose(folder.agreement())
    return site, folder.agreement()


def run(site, *arguments, given=""):
    result = CliRunner().invoke(app, ["site", "approve", "--site", str(site.path), *arguments], input=given)
    return result.exit_code, result.output + str(result.exception or "")


def test_withdrawal_takes_back_every_approval(north):
    site, agreement = north
    site.store.approve(agreement)
    later = dataclasses.replace(agreement, study="another", max_rounds=7)
    site.store.propose(later)  # a proposal after the approval: it is the latest now
    code, said = run(site, "--withdraw")
    assert code == 0
    assert agreement.hash in said.replace("\n", "")
    assert site.store.approved(agreement.hash) is None
    assert "No study is approved now" in said


def test_one_approval_is_taken_back_by_its_hash(north):
    site, agreement = north
    later = dataclasses.replace(agreement, max_rounds=7)
    for terms in (agreement, later):
        site.store.propose(terms)
        site.store.approve(terms)
    assert run(site, "--withdraw", "--hash", later.hash[:12])[0] == 0
    assert site.store.approved(later.hash) is None
    assert site.store.approved(agreement.hash) is not None
    assert "No study whose hash begins" in run(site, "--withdraw", "--hash", "0" * 20)[1]


def test_owners_who_were_shown_different_sites_read_different_phrases(north):
    _, agreement = north
    false = dataclasses.replace(agreement, sites={**agreement.sites, "east": Identity.new().public})
    assert roster_phrase(false) != roster_phrase(agreement)
    assert len(roster_phrase(agreement).split()) == 8
    words = " ".join(in_words(agreement, "north"))
    assert roster_phrase(agreement) in words
    assert "OTHER OWNERS" in words


def test_an_approval_asks_for_the_phrase_that_another_owner_reads(north):
    site, agreement = north
    phrase = roster_phrase(agreement)
    code, said = run(site, given="abcd efgh abcd efgh abcd efgh abcd efgh\ny\n")
    assert code != 0
    assert "not what you typed" in said
    assert site.store.approved(agreement.hash) is None
    assert run(site, given=f"{phrase.upper()}\ny\n")[0] == 0
    assert site.store.approved(agreement.hash) is not None


@pytest.mark.parametrize("digits", [0, 8])
def test_yes_needs_a_hash(north, digits):
    site, agreement = north
    code, said = run(site, "--yes", *(["--hash", agreement.hash[:digits]] if digits else []))
    assert code != 0
    assert "--yes needs --hash" in said
    assert site.store.approved(agreement.hash) is None
    assert run(site, "--yes", "--hash", agreement.hash)[0] == 0


def test_a_study_under_masks_must_ask_for_a_consensus_by_name():
    given = {"name": "trial", "sites": SITES, "solver": "faspca", "lam": 1.0}
    with pytest.raises(ValueError, match="--consensus-under-masks"):
        StudySettings(**given).check()
    StudySettings(**given, consensus_under_masks=True).check()
    StudySettings(**given, masked=False).check()


def test_the_owner_reads_what_a_consensus_tells(north):
    _, agreement = north
    terms = dataclasses.replace(agreement, consensus_under_masks=True)
    assert "this site's OWN covariance matrix" in " ".join(in_words(terms, "north"))
    assert "OWN covariance" not in " ".join(in_words(agreement, "north"))
