"""`on_dropout = "continue"` and one lie: the sum with a site less the sum without it is that site's own."""

import dataclasses

import numpy as np
import pytest

from contracts.federation import D, make_sites
from fedspca import Policy, Query, SiteRefusal
from fedspca.door.agreement import objections
from fedspca.federation.conversation import SiteLost
from fedspca.masking.party import Party
from fedspca.site.queries import AVERAGED, PRIVATE
from fedspca.study.settings import StudySettings
from helpers.hostile import frame, masked

SIZES = (5, 3, 9, 4, 6, 7)


def step(iteration, start):
    arrays = {"z": start, **({**frame(D), "start": start} if iteration == 0 else {})}
    return Query("faspca_step", arrays, {"iteration": iteration, "rho": 50.0, "seed": 1, "deflation": "orthogonal"})


def without_the_last(federation):
    """A coordinator that says of a site that answers that it was lost."""
    federation.sites = federation.sites[:-1]
    federation._ready = None
    return federation


def run_of(federation, name="1" * 32):
    inside = federation._conversation
    return type(federation)(type(inside)(inside._channel, inside._identity, inside.agreement, name))


def test_without_the_defence_the_difference_is_one_sites_own(monkeypatch):
    """Two first rounds that are alike but for one site: it need only be called lost in the second."""
    dropped = dataclasses.replace  # a party for whom averages survive
    monkeypatch.setattr(
        "fedspca.door.masked.Party", lambda *a, **k: dropped(Party(*a, **k), survives=PRIVATE | AVERAGED)
    )
    monkeypatch.setattr("fedspca.masking.party.query_hash", lambda query: str(np.random.default_rng().random()))
    sites = make_sites(sizes=SIZES)
    start = np.linalg.qr(np.random.default_rng(5).standard_normal((D, 1)))[0]
    monkeypatch.setattr("fedspca.masking.party.masks_are_for", lambda *_: "")
    monkeypatch.setattr("fedspca.federation.secure.masks_are_for", lambda *_: "")
    federation = masked(sites, on_dropout="continue")
    whole = federation.sum(step(0, start)).arrays
    fewer = without_the_last(run_of(federation)).sum(step(0, start)).arrays
    alone = make_sites(sizes=SIZES)[-1].answer(step(0, start))
    assert np.allclose(whole["variance"] - fewer["variance"], alone["variance"])
    assert np.allclose(whole["consensus"] - fewer["consensus"], alone["consensus"])


@pytest.mark.parametrize("on_dropout", ["wait", "continue"])
@pytest.mark.parametrize("again", [False, True])
def test_no_exact_sum_is_over_fewer_sites_than_another(on_dropout, again):
    start = np.linalg.qr(np.random.default_rng(5).standard_normal((D, 1)))[0]
    federation = masked(make_sites(sizes=SIZES), on_dropout=on_dropout)
    federation.sum(step(0, start))
    lying = without_the_last(run_of(federation) if again else federation)
    with pytest.raises((SiteRefusal, SiteLost), match="difference of the sums"):
        lying.sum(step(0, start) if again else step(1, start))


@pytest.mark.parametrize("on_dropout", ["wait", "abort"])
def test_the_first_sum_of_a_study_is_over_all_sites(on_dropout):
    """Else a second study over the same sites, one of which is called lost at once, would tell that site's terms."""
    lying = without_the_last(masked(make_sites(sizes=SIZES), on_dropout=on_dropout))
    with pytest.raises((SiteRefusal, SiteLost), match="difference of the sums"):
        lying.sum(Query("moments"))


def test_under_masks_a_study_is_not_set_up_to_go_on():
    given = {"name": "trial", "sites": ("a", "b", "c", "d"), "on_dropout": "continue", "nonzero": 2}
    with pytest.raises(ValueError, match="does not go on without a lost site"):
        StudySettings(**given).check()
    agreement = masked(make_sites(sizes=SIZES), on_dropout="continue").agreement
    found = objections(agreement, Policy(masking=True), rows=9, features=agreement.features)
    assert any("waits for a lost site or ends" in words for words in found)
    StudySettings(**given, masked=False).check()
    StudySettings(**given, epsilon=1.0).check()  # noise covers it
