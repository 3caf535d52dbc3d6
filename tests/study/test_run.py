import re

import numpy as np
import pandas as pd
import pytest

from fedspca import ExactSPCA, Policy, Site
from fedspca.federation import FederationError, LocalFederation
from fedspca.federation.channel import LocalChannel
from fedspca.fit.settings import FitSettings
from fedspca.letters.identity import Identity
from fedspca.model import SparsePCAModel
from fedspca.report import report_html
from fedspca.study.coordinator import StudyFolder
from fedspca.study.owner import SiteFolder
from fedspca.study.run import lead, run_study
from fedspca.study.simulation import endpoints, make_simulation
from fedspca.study.verify import verify
from fedspca.study.words import in_words
from helpers.combat import combat
from helpers.letters import Troubled
from helpers.studies import NAMES, SITES, approve, join, study, table, told


def test_a_study_between_institutions_gives_what_one_process_does(between):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    assert told(folder, "sites")[-1]["said"] == dict.fromkeys(SITES, "not approved")
    approve(sites)
    model = run_study(folder, channel, "run")
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(table(), sites=np.repeat(SITES, 25))
    assert np.allclose(model.components, here.components_, atol=1e-10)
    assert model.feature_names == tuple(NAMES)
    kept = SparsePCAModel.load(folder.model)
    page = report_html(kept)
    assert "was not masked" in page
    assert folder.agreement().hash in page
    assert np.array_equal(kept.components, model.components)
    assert kept.facts["site_names"] == list(SITES)
    assert [line["query"] for line in told(folder, "round")][:2] == ["moments", "deviations"]
    assert told(folder, "done")
    assert not folder.journal.exists()
    asked = [line for line in sites["north"].audit().lines() if line["verdict"] == "answered" and line["kind"] == "ask"]
    assert len(asked) == len(model.facts["history"]) + len(model.facts["asked_after"])
    assert sites["north"].audit().verify() > len(asked)


def test_without_every_approval_the_study_does_not_start(between):
    folder, sites, channel = between
    with pytest.raises(FederationError, match="east: not approved; north: not approved; south: not approved"):
        run_study(folder, channel, "run")
    approve({name: sites[name] for name in ("east", "north")})
    del channel.endpoints["north"]
    with pytest.raises(FederationError, match="north: not here; south: not approved") as caught:
        run_study(folder, channel, "run")
    assert "east" not in str(caught.value)
    asked = [line["kind"] for line in sites["east"].audit().lines()]
    assert set(asked) == {"propose"}


def test_a_policy_that_refuses_says_why(files):
    folder = StudyFolder.create(files / "trial", study())
    sites = {name: join(folder, files, name, "min_rows = 50" if name == "north" else "") for name in SITES}
    channel = LocalChannel({name: site.endpoint() for name, site in sites.items()})
    with pytest.raises(FederationError, match="north: it holds fewer rows than the 50 that its policy requires"):
        run_study(folder, channel, "run")


class Killed(BaseException):
    """The coordinator's process is no more."""


def killed_at(limit, sites):
    """A channel whose coordinator is killed at a certain letter, or never."""

    def trouble(count, site, letter, reply):
        if count == limit:
            raise Killed
        return reply

    return Troubled(sites, trouble)


def test_a_run_that_is_stopped_is_resumed_to_the_same_bits(between):
    folder, sites, _ = between

    def channel(limit):
        return killed_at(limit, {name: site.endpoint() for name, site in sites.items()})

    run_study(folder, channel(None), "status")
    approve(sites)
    whole = run_study(folder, channel(None), "run")
    with pytest.raises(ValueError, match="no run to resume"):
        run_study(folder, channel(None), "resume")
    for limit in (2, 3, 4, 5):
        with pytest.raises(Killed):
            run_study(folder, channel(limit), "run")
        again = run_study(folder, channel(None), "resume")
        assert again.components.tobytes() == whole.components.tobytes()
        assert again.covariance.tobytes() == whole.covariance.tobytes()


def test_a_checkpoint_of_other_terms_is_not_resumed(between):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    approve(sites)
    channel.endpoints["north"].handle = lambda letter: b""
    settings = folder.path / "study.toml"
    settings.write_text(settings.read_text().replace('on_dropout = "wait"', 'on_dropout = "abort"'))
    del channel.endpoints["north"].handle
    run_study(folder, channel, "status")
    approve(sites)

    calls = []

    def dies(letters, deadline):
        calls.append(1)
        return {} if len(calls) > 4 else LocalChannel.exchange(channel, letters, deadline)

    channel.exchange = dies
    with pytest.raises(RuntimeError, match="did not answer"):
        run_study(folder, channel, "run")
    settings.write_text(settings.read_text().replace("nonzero = 3", "nonzero = 4"))
    with pytest.raises(ValueError, match="changed since the run began"):
        run_study(folder, channel, "resume")


def test_what_goes_wrong_in_the_server_is_told_in_the_folder(between):
    folder, _sites, channel = between
    names = []

    def make_channel(hello, identify, known):
        assert known == {}
        names.extend(identify(endpoint.handle(hello)) for endpoint in channel.endpoints.values())
        names.append(identify(b"noise"))
        stranger = Identity.new()
        names.append(identify(stranger.sign(channel.endpoints["east"].handle(hello)[105:])))
        return channel

    with pytest.raises(FederationError):
        lead(folder.path, "run", make_channel)
    assert names == [*SITES, None, None]
    assert "not approved" in told(folder, "failed")[-1]["error"]
    with pytest.raises(ValueError, match="no action"):
        lead(folder.path, "delete", make_channel)


def test_a_lost_site_and_the_study_goes_on(files):
    folder = StudyFolder.create(files / "trial", study(on_dropout="continue", min_sites=2))
    sites = {name: join(folder, files, name, "min_sites = 2") for name in SITES}

    def trouble(count, site, letter, reply):
        return None if site == "north" and count >= 5 else reply

    channel = Troubled({name: site.endpoint() for name, site in sites.items()}, trouble)
    run_study(folder, channel, "status")
    approve(sites)
    model = run_study(folder, channel, "run")
    left = np.vstack(np.array_split(table(), 3)[::2])
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(left, sites=np.repeat(["east", "south"], 25))
    assert np.allclose(model.components, here.components_, atol=1e-10)
    assert model.facts["site_names"] == ["east", "south"]
    assert "north" in model.facts["told"][0]
    assert any("begins again" in line["text"] for line in told(folder, "notice"))


@pytest.mark.parametrize(
    "given", [{}, {"solver": "faspca", "nonzero": None, "lam": 5.0, "max_rounds": 6, "consensus_under_masks": True}]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_masked_studies_give_what_plain_ones_do_and_are_resumed(files, given):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    plain = make_simulation(files / "plain", study(**given), data)
    reference = run_study(plain, LocalChannel(endpoints(plain)), "run")
    folder = make_simulation(files / "masked", study(masked=True, **given), data)

    def channel(limit):
        return killed_at(limit, endpoints(folder))

    model = run_study(folder, channel(None), "run")
    assert np.allclose(model.components, reference.components, atol=1e-8)
    for limit in (2, 3, 4, 5, 8, 9):  # keys, shares, masked, unmask, and later
        with pytest.raises(Killed):
            run_study(folder, channel(limit), "run")
        again = run_study(folder, channel(None), "resume")
        assert again.components.tobytes() == model.components.tobytes()


def test_masked_sites_count_where_a_unit_looks_wrong_and_their_owners_see_whose_it_is(files):
    for name in SITES:
        rows = pd.read_csv(files / f"{name}.csv") + 10.0
        rows["f3"] *= 18.0 if name == "north" else 1.0
        rows.to_csv(files / f"{name}.csv", index=False)
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    folder = make_simulation(files / "trial", study(masked=True), data)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert list(model.facts["odd_units"]) == ["f3"]
    (told,) = [caution for caution in model.cautions() if "unit may be wrong" in caution]
    assert "'f3'" in told
    assert not any(name in told for name in SITES)
    assert "At some site a unit may be wrong" in report_html(model)
    (owner,) = SiteFolder(files / "trial" / "sites" / "north").cautions()
    assert re.match(r"'f3' is \S+ times larger here", owner)


def test_a_study_that_compares_no_units_does_not_ask(files):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    folder = make_simulation(files / "trial", study(units=False), data)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert "odd_units" not in [line["query"] for line in told(folder, "question")]
    assert model.cautions() == []
    assert (
        "odd_units" not in study(adjust=("age",)).agreement("key", dict.fromkeys(SITES, "k"), ("f",), files).questions
    )


def test_a_private_study_releases_once_and_says_what_it_spent(files):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    (files / "ranges.csv").write_text("feature,centre,scale\n" + "".join(f"{name},0,1\n" for name in NAMES))
    folder = make_simulation(files / "trial", study(masked=True, epsilon=8.0, stated=str(files / "ranges.csv")), data)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert 0 < model.facts["institutions"]["privacy"]["epsilon"] <= 8.0
    page = report_html(model)
    assert "Differentially private for each row" in page
    assert "private_gram" in page
    ledger = SiteFolder(folder.path / "sites" / "north").ledger()
    assert [line["what"] for line in ledger.entries()] == ["private_lengths", "private_gram"]
    with pytest.raises(RuntimeError, match="the study may spend 8"):
        run_study(folder, LocalChannel(endpoints(folder)), "run")


def test_a_private_study_by_fold_tells_how_sure_it_is_and_releases_once(tmp_path):
    rows = np.random.default_rng(0).standard_normal((3000, len(NAMES)))
    rows[:, :3] += 2.0 * np.random.default_rng(1).standard_normal((3000, 1))
    for name, part in zip(SITES, np.array_split(rows, 3), strict=True):
        pd.DataFrame(part, columns=NAMES).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "ranges.csv").write_text("feature,centre,scale\n" + "".join(f"{name},0,1\n" for name in NAMES))
    data = FitSettings(files=tuple(str(tmp_path / f"{name}.csv") for name in SITES))
    given = study(masked=True, epsilon=8.0, stated=str(tmp_path / "ranges.csv"), folds=4, components=1)
    folder = make_simulation(tmp_path / "trial", given, data)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert model.facts["certainty"]["folds"] == 4
    assert "How sure component 1 is" in report_html(model)
    ledger = SiteFolder(folder.path / "sites" / "north").ledger()
    assert [line["what"] for line in ledger.entries()] == ["private_lengths", "private_gram"]
    assert 0 < ledger.spent() <= 8.0
    assert [finding.told for finding in verify(folder.bundle) if not finding.holds] == []


def test_a_masked_study_asks_about_a_sample_first_and_is_replayed(tmp_path):
    rows = np.random.default_rng(0).standard_normal((3000, len(NAMES)))
    rows[:, :3] += 2.0 * np.random.default_rng(1).standard_normal((3000, 1))
    for name, part in zip(SITES, np.array_split(rows, 3), strict=True):
        pd.DataFrame(part, columns=NAMES).to_csv(tmp_path / f"{name}.csv", index=False)
    data = FitSettings(files=tuple(str(tmp_path / f"{name}.csv") for name in SITES))
    folder = make_simulation(tmp_path / "trial", study(masked=True, sample=10, components=1, scale=False), data)
    assert "First one row in 10 is asked about" in " ".join(in_words(folder.agreement(), "north"))
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    here = ExactSPCA(1, n_nonzero=3).fit(rows)
    assert np.allclose(model.components, here.components_, atol=1e-4)
    assert {"gram", "gram_product"} <= {line["query"] for line in told(folder, "question")}
    assert [finding.told for finding in verify(folder.bundle) if not finding.holds] == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"epsilon": 1.0}, "A private study has no sample"),
        ({"folds": 4}, "Rows are dealt in one way"),
        ({"centre": "site"}, "A sample is of rows as they are"),
    ],
)
def test_a_sample_beside_other_releases_is_refused_before_owners_are_asked(given, words):
    with pytest.raises(ValueError, match=words):
        study(masked=True, sample=10, **given).check()


@pytest.mark.parametrize("transform", ["normal", "winsorise:0.05"])
def test_a_private_study_transforms_by_quantiles_that_are_planned_and_charged(tmp_path, transform):
    rows = np.random.default_rng(0).standard_normal((6000, len(NAMES)))
    rows[:, :3] += 2.0 * np.random.default_rng(1).standard_normal((6000, 1))
    for name, part in zip(SITES, np.array_split(np.exp(0.4 * rows), 3), strict=True):
        pd.DataFrame(part, columns=NAMES).to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "ranges.csv").write_text("feature,centre,scale\n" + "".join(f"{name},1,0.6\n" for name in NAMES))
    data = FitSettings(files=tuple(str(tmp_path / f"{name}.csv") for name in SITES))
    about = {"masked": True, "epsilon": 8.0, "stated": str(tmp_path / "ranges.csv"), "components": 1}
    folder = make_simulation(tmp_path / "trial", study(transform=(transform,), **about), data)
    assert "private_counts: for each feature how many values lie" in " ".join(in_words(folder.agreement(), "north"))
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert set(np.flatnonzero(model.components[0])) == {0, 1, 2}
    ledger = SiteFolder(folder.path / "sites" / "north").ledger()
    assert [line["what"] for line in ledger.entries()] == ["private_counts", "private_lengths", "private_gram"]
    assert 7.9 < ledger.spent() <= 8.0
    assert [finding.told for finding in verify(folder.bundle) if not finding.holds] == []
    scores = model.transform(np.exp(0.4 * rows))[:, 0]
    assert abs(np.corrcoef(scores, rows[:, :3].sum(axis=1))[0, 1]) > 0.9
    assert "private_counts" in report_html(model)
    usual = make_simulation(tmp_path / "usual", study(**about), data)
    assert "private_counts" not in usual.agreement().questions


def test_a_coordinator_that_speaks_another_protocol_is_refused_before_anything_is_asked(between, monkeypatch):
    folder, sites, channel = between
    monkeypatch.setattr("fedspca.federation.conversation.introduction", lambda: {"protocol": 2, "software": "9.9"})
    with pytest.raises(FederationError, match=r"coordinator runs fedspca 9\.9, which speaks protocol 2"):
        run_study(folder, channel, "run")
    assert sites["north"].store.studies() == []


def test_a_site_that_speaks_another_protocol_is_told_of_and_not_asked(between, monkeypatch):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    approve(sites)
    monkeypatch.setattr("fedspca.door.endpoint.introduction", lambda: {"protocol": 2, "software": "9.9"})
    with pytest.raises(FederationError, match=r"site runs fedspca 9\.9, which speaks protocol 2"):
        run_study(folder, channel, "run")


def test_other_releases_of_the_same_protocol_go_on_and_are_told_of(between, monkeypatch):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    approve(sites)
    monkeypatch.setattr("fedspca.door.endpoint.introduction", lambda: {"protocol": 1, "software": "9.9"})
    assert run_study(folder, channel, "run") is not None
    assert any("east 9.9, north 9.9, south 9.9" in line["text"] for line in told(folder, "notice"))


def adjusted_study(home, **settings):
    """Three sites on this machine whose files have an age, a sex and a weight beside the features."""
    rng = np.random.default_rng(3)
    whole = pd.DataFrame(table(), columns=NAMES)
    whole["age"], whole["sex"] = rng.normal(50, 9, 75).round(2), rng.choice(["F", "M"], 75)
    whole["often"] = 1.0 + rng.integers(0, 3, 75)
    whole["f2"] += whole["age"]
    for name, part in zip(SITES, (whole[:25], whole[25:50], whole[50:]), strict=True):
        part.to_csv(home / f"{name}.csv", index=False)
    files = tuple(str(home / f"{name}.csv") for name in SITES)
    beside = ("sex", "often", "age")
    folder = make_simulation(home / "trial", study(masked=True, **settings), FitSettings(files=files, exclude=beside))
    return folder, whole


def test_masked_sites_take_out_agreed_covariates_and_count_agreed_weights(tmp_path):
    folder, whole = adjusted_study(tmp_path, adjust=("age", "sex"), levels={"sex": ("F", "M")}, weight="often")
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    about = {"covariates": whole[["age", "sex"]], "sample_weight": whole["often"]}
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(whole[NAMES], sites=np.repeat(SITES, 25), **about)
    assert np.allclose(model.components, here.components_, atol=1e-10)
    assert np.allclose(model.coefficients, here.adjustment_.coefficients, atol=1e-10)
    assert model.feature_names == tuple(NAMES)
    site = SiteFolder(folder.path / "sites" / "north")
    kept = SparsePCAModel.load(site.store.model_folder(folder.agreement().hash))
    assert np.array_equal(kept.components, model.components)
    told = " ".join(in_words(folder.agreement(), "north"))
    assert "taken out of the features first: age, sex" in told
    assert "as often as the column 'often' says" in told


def test_masked_sites_go_by_their_own_means_and_count_alike(tmp_path):
    folder, whole = adjusted_study(tmp_path, centre="site", scale_by="site", site_weight="equal")
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    about = {"centre": "site", "scale_by": "site", "site_weight": "equal"}
    here = ExactSPCA(2, n_nonzero=3).fit(whole[NAMES], sites=np.repeat(SITES, 25), **about)
    assert np.allclose(model.components, here.components_, atol=1e-10)
    assert np.allclose(model.explained_variance, here.explained_variance_, rtol=1e-8)
    told = " ".join(in_words(folder.agreement(), "north"))
    assert "about its own mean and divided by its own spread" in told
    assert "Every site counts alike" in told


def test_masked_sites_take_their_own_shift_and_spread_out(tmp_path):
    folder, whole = adjusted_study(tmp_path, centre="combat", protect=("age",))
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    sites = np.repeat(SITES, 25)
    pooled = combat(whole[NAMES].to_numpy(), sites, whole[["age"]].to_numpy())
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(pooled)
    assert np.allclose(model.components, here.components_, atol=1e-8)
    assert np.allclose(model.explained_variance, here.explained_variance_, rtol=1e-8)
    told = " ".join(in_words(folder.agreement(), "north"))
    assert "taken out of its rows, shrunk over the features (ComBat)" in told
    assert "harmonised: for each feature" in told


def test_masked_sites_agree_on_quantiles_and_on_the_features_that_vary_most(tmp_path):
    folder, whole = adjusted_study(tmp_path, transform=("normal",), variable=5)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    about = {"sites": np.repeat(SITES, 25), "transform": ["normal"], "variable": 5}
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(whole[NAMES], **about)
    assert np.allclose(model.components, here.components_, atol=1e-8)
    assert np.allclose(model.transform(whole[NAMES].to_numpy()), here.transform(whole[NAMES]), atol=1e-6)
    assert len(model.facts["left_out_features"]) == len(NAMES) - 5
    told = " ".join(in_words(folder.agreement(), "north"))
    assert "counts_below: for each feature how many values" in told
    assert "Only the 5 features of the largest variance are used." in told
    with pytest.raises(ValueError, match="takes no transform pearson"):
        study(epsilon=1.0, transform=("pearson",)).check()


def test_em_for_missing_values_is_for_studies_without_masks(tmp_path):
    with pytest.raises(ValueError, match="Fill them in once"):
        study(missing="em", masked=True).check()
    for missing in ("em", "em-once"):
        with pytest.raises(ValueError, match=f"missing = {missing} is not for studies with noise"):
            study(missing=missing, epsilon=1.0).check()
    whole = pd.DataFrame(table(), columns=NAMES)
    whole = whole.mask(np.random.default_rng(0).random(whole.shape) < 0.1)
    for name, part in zip(SITES, (whole[:25], whole[25:50], whole[50:]), strict=True):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    files = tuple(str(tmp_path / f"{name}.csv") for name in SITES)
    settings = study(missing="em", masked=False, max_missing=0.5)
    folder = make_simulation(tmp_path / "trial", settings, FitSettings(files=files))
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    here = ExactSPCA(2, n_nonzero=3, scale=True, missing="em", max_missing=0.5).fit(whole.to_numpy())
    assert np.allclose(model.components, here.components_, atol=1e-8)
    assert np.allclose(model.transform(whole.to_numpy()), here.transform(whole.to_numpy()), atol=1e-6)
    assert "the differences between rounds tell of the rows" in " ".join(in_words(folder.agreement(), "north"))


def test_gaps_that_are_filled_in_may_make_a_covariance_larger_than_the_values_that_are_there(tmp_path):
    rng = np.random.default_rng(0)
    whole = pd.DataFrame(rng.standard_normal((75, 1)) + 0.1 * rng.standard_normal((75, 6)), columns=NAMES)
    gaps = whole.mask(rng.random(whole.shape) < 0.4)
    for name, part in zip(SITES, (gaps[:25], gaps[25:50], gaps[50:]), strict=True):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    settings = study(missing="em", max_missing=0.6, on_dropout="abort")
    files = tuple(str(tmp_path / f"{name}.csv") for name in SITES)
    folder = make_simulation(tmp_path / "trial", settings, FitSettings(files=files))
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert model.missing_share.min() > 0.3


def test_masked_sites_fill_missing_values_in_once(tmp_path):
    """Eighty rows a site with enough gaps: the guard leaves one or two rows as they are, and the rest is as pooled."""
    rng = np.random.default_rng(0)
    whole = pd.DataFrame(rng.standard_normal((240, 2)) @ rng.standard_normal((2, 6)), columns=NAMES)
    whole += 0.5 * rng.standard_normal(whole.shape)
    gaps = whole.mask(rng.random(whole.shape) < 0.2)
    parts = np.split(np.arange(240), 3)
    for name, part in zip(SITES, parts, strict=True):
        gaps.iloc[part].to_csv(tmp_path / f"{name}.csv", index=False)
    files = tuple(str(tmp_path / f"{name}.csv") for name in SITES)
    settings = study(missing="em-once", masked=True, max_missing=0.5)
    folder = make_simulation(tmp_path / "trial", settings, FitSettings(files=files))
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    policy = Policy(min_rows=10, min_fold_rows=5)
    tables = [(name, gaps.iloc[at]) for name, at in zip(SITES, parts, strict=True)]
    sites = [Site(name, part, policy=policy, allow_missing=True) for name, part in tables]
    method = ExactSPCA(2, n_nonzero=3, scale=True, missing="em-once", max_missing=0.5)
    here = method.fit_federation(LocalFederation(sites))
    assert np.allclose(model.components, here.components_, atol=1e-8)
    assert np.allclose(model.transform(gaps.to_numpy()), here.transform(gaps), atol=1e-8)
    pooled = ExactSPCA(2, n_nonzero=3, scale=True, missing="em-once", max_missing=0.5).fit(gaps)
    assert 0 < (np.abs(pooled.mean_ - here.mean_) / whole.std()).max() < 0.02
    assert "it tells of the rows with missing values together, and of none alone" in " ".join(
        in_words(folder.agreement(), "north")
    )


def test_a_site_whose_covariates_are_not_as_agreed_tells_its_owner_alone(tmp_path, caplog):
    folder, _ = adjusted_study(tmp_path, adjust=("sex",), levels={"sex": ("F", "X")})
    with pytest.raises(FederationError, match="covariates or weights are not as the study needs") as caught:
        run_study(folder, LocalChannel(endpoints(folder)), "run")
    assert "'M'" not in str(caught.value)
    assert "has the level 'M'" in caplog.text


def test_a_private_study_takes_nothing_out(tmp_path):
    with pytest.raises(ValueError, match="takes no adjust, centre: what that would release is not planned"):
        study(epsilon=1.0, adjust=("age",), centre="site").check()


def test_sites_that_are_not_here_are_waited_for_by_name(between, monkeypatch):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    approve(sites)
    monkeypatch.setattr("fedspca.study.run.PAUSE", 0.0)
    away, north = 3, channel.endpoints.pop("north")

    def come_back(*_):
        nonlocal away
        away -= 1
        if not away:
            channel.endpoints["north"] = north

    monkeypatch.setattr("fedspca.study.run.time.sleep", come_back)
    assert run_study(folder, channel, "run") is not None
    assert [line["text"] for line in told(folder, "notice")] == ["Waiting up to 90 s for north."]
