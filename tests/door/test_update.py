"""A masked study whose model is updated: the answer is that of a new fit, and every site guards its added rows."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from fedspca import ExactSPCA
from fedspca.door.agreement import InvalidAgreement
from fedspca.door.update import update_objections
from fedspca.federation import FederationError
from fedspca.federation.channel import LocalChannel
from fedspca.fit.settings import FitSettings
from fedspca.site import SiteRefusal
from fedspca.study.agreed import planned_update
from fedspca.study.earlier import told_together
from fedspca.study.owner import SiteFolder
from fedspca.study.run import run_study
from fedspca.study.settings import StudySettings
from fedspca.study.simulation import endpoints, make_simulation
from fedspca.study.verify import verify
from fedspca.study.words import in_words

SITES = ("east", "north", "south")
NAMES = [f"f{j}" for j in range(6)]


def rows_of(site, n):
    rng = np.random.default_rng(SITES.index(site))
    x = rng.standard_normal((n, 6))
    x[:, 1] += 2 * x[:, 0]
    x[:, 4] += x[:, 3]
    return x


def write(home, site, n):
    pd.DataFrame(rows_of(site, n), columns=NAMES).to_csv(home / f"{site}.csv", index=False)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A finished masked study of three sites with 30 rows each, that asks products only."""
    home = tmp_path_factory.mktemp("living")
    for site in SITES:
        write(home, site, 30)
    data = FitSettings(files=tuple(str(home / f"{site}.csv") for site in SITES))
    settings = StudySettings(name="trial", sites=SITES, nonzero=3, search="products", path=False)
    folder = make_simulation(home / "trial", settings, data)
    model = run_study(folder, LocalChannel(endpoints(folder)), "run")
    for site in SITES:
        (folder.path / "sites" / site / "policy.toml").write_text("min_rows = 10\n")
    return folder, model, home


def site_folder(folder, name):
    return SiteFolder(folder.path / "sites" / name)


@pytest.fixture
def grown(study):
    """A function that lets sites hold so many rows; afterwards they are as before."""
    _, _, home = study
    yield lambda **counts: [write(home, site, n) for site, n in counts.items()]
    for site in SITES:
        write(home, site, 30)


def test_a_masked_update_gives_what_a_new_fit_gives_in_fewer_rounds(study, grown):
    folder, model, _ = study
    grown(east=42, north=45, south=40)
    folder.plan_update(SITES)
    agreement = folder.agreement()
    folder.plan_update(SITES)  # asked again before the run is finished: the same agreement
    assert folder.agreement().hash == agreement.hash
    for name in SITES:
        site = site_folder(folder, name)
        assert update_objections(agreement, site.store, site.open_site(agreement)) == []
        assert told_together(agreement, site.store, site.open_site(agreement)) == []
        site.store.propose(agreement)
        site.store.approve(agreement)
    words = " ".join(in_words(agreement, "north"))
    assert "these sites have new rows or join: east, north, south" in words
    try:
        updated = run_study(folder, LocalChannel(endpoints(folder)), "run")
        every = np.vstack([rows_of(site, n) for site, n in (("east", 42), ("north", 45), ("south", 40))])
        fresh = ExactSPCA(2, n_nonzero=3, scale=True, search="products").fit(every)
        assert np.abs(updated.components - fresh.components_).max() < 1e-8
        assert len(updated.facts["history"]) < min(len(model.facts["history"]), fresh.n_rounds_)
        assert "gram_sketch" not in [line["query"] for line in updated.facts["history"]]
        assert all(finding.holds for finding in verify(folder.bundle))
        with pytest.raises(InvalidAgreement, match="min_sites"):  # the next update is of this model
            folder.plan_update(["north"])
        assert folder.update()["of"] == agreement.update["of"]
    finally:
        model.save(folder.model, overwrite=True)
        (folder.path / "update.json").unlink()


def agreed(study, *adds):
    folder, model, _ = study
    return dataclasses.replace(folder.agreement(), min_sites=len(adds), update=planned_update(model, adds))


def objections(study, name, agreement):
    site = site_folder(study[0], name)
    return update_objections(agreement, site.store, site.open_site(agreement))


def test_a_site_refuses_what_the_difference_would_tell(study, grown):
    every = agreed(study, *SITES)
    grown(north=39)
    assert objections(study, "north", every) == ["it adds fewer rows than the 10 that its policy requires"]
    grown(north=40)
    assert objections(study, "north", every) == []
    # south is named and adds nothing: it must not be a pretext for north's rows
    assert objections(study, "south", every) == ["it adds fewer rows than the 10 that its policy requires"]
    two = dataclasses.replace(every, masked=False, update={**every.update, "adds": ["east", "south"]})
    assert "its rows are not those of the earlier model" in objections(study, "north", two)[0]
    grown(north=30)
    assert objections(study, "north", two) == []


def test_rows_of_one_site_alone_are_refused_by_all(study, grown):
    folder, _, _ = study
    grown(north=45)
    with pytest.raises(InvalidAgreement, match="would be of north alone"):
        folder.plan_update(["north"])
    assert folder.update() is None
    # a coordinator who writes the agreement itself, with a smaller min_sites, meets the policy of each site
    alone = dataclasses.replace(folder.agreement(), min_sites=1)
    alone = dataclasses.replace(alone, update=planned_update(study[1], ["north"]))
    for name in SITES:
        assert "would be of 1 site(s), and its policy requires 3" in objections(study, name, alone)[0]


def test_noise_covers_one_site(study, grown):
    grown(north=45)
    private = dataclasses.replace(agreed(study, *SITES), privacy={"epsilon": 1.0, "delta": 1e-6})
    alone = dataclasses.replace(private, update={**private.update, "adds": ["north"]})
    assert objections(study, "north", alone) == []


def test_the_door_refuses_at_the_proposal_and_again_before_the_first_answer(study, grown):
    folder, _, _ = study
    grown(east=45, north=45, south=45)
    folder.plan_update(SITES)
    try:
        doors = endpoints(folder)
        grown(north=33)
        doors["north"] = site_folder(folder, "north").endpoint()  # started again, with other rows
        with pytest.raises(FederationError, match="north: it adds fewer rows than the 10"):
            run_study(folder, LocalChannel(doors), "run")
        agreement = dataclasses.replace(folder.agreement(), study="never answered")
        with pytest.raises(SiteRefusal, match="it adds fewer rows than the 10"):
            doors["north"]._restored(agreement)
    finally:
        (folder.path / "update.json").unlink()


def test_a_site_that_did_not_answer_before_must_be_named(study):
    every = agreed(study, *SITES)
    other = dataclasses.replace(every, update={**every.update, "of": "0" * 64})
    assert objections(study, "north", other) == []  # as a site that joins
    fewer = dataclasses.replace(other, masked=False, update={**other.update, "adds": ["east"]})
    assert "has not answered the study whose model is updated" in objections(study, "north", fewer)[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"adds": []}, "each once"),
        ({"adds": ["north", "north", "east"]}, "each once"),
        ({"adds": ["north", "south", "west"]}, "'west', which does not take part"),
        ({"of": "x"}, "by its hash"),
        ({"basis": [[1.0]]}, "as many numbers"),
        ({"components": [[float("nan")] * 6]}, "as many numbers"),
    ],
)
def test_an_update_that_is_none_is_no_agreement(study, change, said):
    every = agreed(study, *SITES)
    with pytest.raises(InvalidAgreement, match=said):
        dataclasses.replace(every, update={**every.update, **change})
    with pytest.raises(InvalidAgreement, match="must be a table of"):
        dataclasses.replace(every, update={"of": every.hash})


def test_a_site_is_invited_later(study):
    folder, _, _ = study
    before = (folder.path / "study.toml").read_bytes()
    try:
        assert folder.invite("west").exists()
        assert folder.settings.sites == (*SITES, "west")
        with pytest.raises(ValueError, match="takes part already"):
            folder.invite("west")
        with pytest.raises(ValueError, match="No reply yet from west"):
            folder.plan_update(["west", "north", "south"])
        assert folder.update() is None
    finally:
        (folder.path / "study.toml").write_bytes(before)
        (folder.path / "invitations" / "west.invitation").unlink()
