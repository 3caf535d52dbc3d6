"""Two studies over nearly the same sites, or nearly the same rows: their difference is one site's own, or one row."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fedspca import Query, Site
from fedspca.cli.app import app
from fedspca.federation.channel import LocalChannel
from fedspca.fit.settings import FitSettings
from fedspca.letters.identity import Identity
from fedspca.linalg.symmetric import unpack
from fedspca.site.preparation import Preparation
from fedspca.study.earlier import told_together
from fedspca.study.owner import SiteFolder
from fedspca.study.run import run_study
from fedspca.study.settings import StudySettings
from fedspca.study.simulation import endpoints, make_simulation
from helpers.hostile import frame, masked

SITES = ("east", "north", "south")


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """The folder of a site that has answered a study, and the terms of that study."""
    home = tmp_path_factory.mktemp("two")
    rng = np.random.default_rng(0)
    for name in SITES:
        pd.DataFrame(rng.standard_normal((30, 4)), columns=list("abcd")).to_csv(home / f"{name}.csv", index=False)
    data = FitSettings(files=tuple(str(home / f"{name}.csv") for name in SITES))
    folder = make_simulation(home / "trial", StudySettings(name="trial", sites=SITES, nonzero=2, path=False), data)
    run_study(folder, LocalChannel(endpoints(folder)), "run")
    site = SiteFolder(folder.path / "sites" / "north")
    (site.path / "policy.toml").write_text("min_rows = 10\n")
    return site, folder.agreement(), home


def approve(site, agreement, *arguments):
    site.store.propose(agreement)
    command = ["site", "approve", "--site", str(site.path), "--yes", "--hash", agreement.hash, *arguments]
    result = CliRunner().invoke(app, command)
    return result.exit_code, result.output + str(result.exception or "")


def test_without_the_defence_the_difference_is_one_sites_own():
    parts = [np.random.default_rng(k).standard_normal((9, 3)) for k in range(4)]
    sites = [Site(f"s{k}", part) for k, part in enumerate(parts)]
    whole, fewer = (masked(chosen).sum(Query("moments"))["sums"] for chosen in (sites, sites[:3]))
    assert np.allclose(whole - fewer, parts[3].sum(axis=0))


def test_a_site_more_is_not_approved_unknowingly(answered):
    site, agreement, _ = answered
    more = dataclasses.replace(agreement, study="more", sites={**agreement.sites, "west": Identity.new().public})
    code, said = approve(site, more)
    assert code != 0
    assert "that of west alone" in said
    assert site.store.approved(more.hash) is None
    assert approve(site, more, "--even-so")[0] == 0


def test_few_rows_more_are_not_approved_unknowingly(answered):
    site, agreement, home = answered
    again = dataclasses.replace(agreement, study="again")
    now = site.open_site()
    assert told_together(again, site.store, now) == []
    file = home / "north.csv"
    before = file.read_text()
    try:
        file.write_text(before + "1,2,3,4\n")
        code, said = approve(site, again)
        assert code != 0
        assert "about 1 row of this site" in said
        file.write_text(before.replace(before.splitlines()[1], "1,2,3,4"))
        assert "were changed" in told_together(again, site.store, site.open_site())[0]
        file.write_text(before + "1,2,3,4\n" * 10)
        assert told_together(again, site.store, site.open_site()) == []
    finally:
        file.write_text(before)


def test_noise_covers_the_difference(answered):
    site, agreement, _ = answered
    private = dataclasses.replace(
        agreement,
        study="private",
        sites={**agreement.sites, "west": Identity.new().public},
        privacy={"epsilon": 1.0, "delta": 1e-6},
    )
    assert told_together(private, site.store, site.open_site()) == []


def test_without_the_defence_two_ways_to_centre_tell_what_lies_between_sites():
    parts = [np.random.default_rng(k).standard_normal((9, 3)) + k for k in range(3)]
    mean = np.vstack(parts).mean(axis=0)
    grams = []
    for fit, about in (({}, mean), ({"centre": "site"}, np.zeros(3))):
        sites = [Site(f"s{k}", part, preparation=Preparation.of(fit)) for k, part in enumerate(parts)]
        asked = Query("gram", {**frame(3), "mean": about}, {"precision": "float64"})
        grams.append(unpack(masked(sites, fit=fit).sum(asked)["gram"]))
    own = np.array([part.mean(axis=0) - mean for part in parts])
    assert np.allclose(grams[0] - grams[1], 9 * own.T @ own)


@pytest.mark.parametrize("changed", [{"centre": "site"}, {"centre": "combat"}, {"transform": ["normal"]}])
def test_another_way_to_centre_is_not_approved_unknowingly(answered, changed):
    site, agreement, _ = answered
    other = dataclasses.replace(agreement, study="own means", fit={**agreement.fit, **changed})
    code, said = approve(site, other)
    assert code != 0
    assert "the sites' own means" in said
    assert approve(site, other, "--even-so")[0] == 0
