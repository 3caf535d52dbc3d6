import numpy as np
import pytest

from contracts.federation import make_sites
from fedspca import FASPCA, ExactSPCA, LocalFederation
from fedspca.federation.conversation import SiteLost
from fedspca.federation.plain import RosterChanged
from helpers.troubles import SIZES, TROUBLES, troubled


def test_a_lost_site_is_waited_for():
    away = iter([None, None])

    def trouble(count, site, letter, reply):
        return next(away, reply) if site == "clinic-1" and count >= 3 else reply

    import fedspca.federation.roster as remote

    federation, told = troubled(trouble, on_dropout="wait")
    pause, remote.PAUSE = remote.PAUSE, 0.01
    try:
        there = ExactSPCA(2, lam=5.0).fit_federation(federation)
    finally:
        remote.PAUSE = pause
    here = ExactSPCA(2, lam=5.0).fit_federation(LocalFederation(make_sites(SIZES)))
    assert np.array_equal(here.components_, there.components_)
    assert len(told) == 2
    assert all("clinic-1" in text for text in told)


def test_patience_ends():
    federation, _ = troubled(TROUBLES["killed"], on_dropout="wait", patience=0.01)
    with pytest.raises(SiteLost, match="clinic-1"):
        ExactSPCA(2, lam=5.0).fit_federation(federation)


def test_an_exact_fit_begins_again_without_a_lost_site():
    federation, told = troubled(TROUBLES["killed"], on_dropout="continue", min_sites=2)
    with pytest.raises(RosterChanged, match="clinic-1"):
        ExactSPCA(2, lam=5.0).fit_federation(federation)
    assert federation.sites == ("clinic-0", "clinic-2")
    there = ExactSPCA(2, lam=5.0).fit_federation(federation)
    left = [site for site in make_sites(SIZES) if site.name != "clinic-1"]
    here = ExactSPCA(2, lam=5.0).fit_federation(LocalFederation(left))
    assert np.array_equal(here.components_, there.components_)
    assert "going on without clinic-1" in told[0]


def test_a_consensus_goes_on_with_those_that_are_left():
    def trouble(count, site, letter, reply):
        return None if site == "clinic-1" and count >= 12 else reply

    federation, told = troubled(trouble, on_dropout="continue", min_sites=2)
    fitted = FASPCA(2, lam=3.0).fit_federation(federation)
    assert "going on without clinic-1" in told[0]
    assert fitted.n_sites_ == 2
    assert fitted.history_[-1].query == "faspca_step" or fitted.n_rounds_ > 12
    assert np.allclose(fitted.components_ @ fitted.components_.T, np.eye(2), atol=1e-6)


def test_too_few_sites_are_not_summed():
    federation, _ = troubled(TROUBLES["killed"], on_dropout="continue", min_sites=3)
    with pytest.raises(SiteLost, match="2 sites left are fewer than the 3"):
        ExactSPCA(2, lam=5.0).fit_federation(federation)
