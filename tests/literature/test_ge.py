import numpy as np
import pytest

from contracts.literature import FEW, STEPS, RowsContract, apart
from contracts.solver import owners
from fedspca import Budget, FederationError, Ledger, LocalFederation, Site, SiteRefusal, secure_federation
from fedspca.federation.release_plan import Privacy
from fedspca.literature import DSPCA, PrivateTruncatedPower, TruncatedPower
from fedspca.literature.ge import NoisedProducts
from helpers.private import silent


def private(**settings):
    return PrivateTruncatedPower(2, n_nonzero=4, clip=60.0, iterations=STEPS, **settings)


class TestRows(RowsContract):
    sees_constants = False  # noise hides that a feature is constant, as it hides all else

    def make(self, **settings):
        return private(**settings)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_masks_change_nothing(rows, monkeypatch):
    silent(monkeypatch)  # what is left is the same in every run
    sites = [Site(f"s{k}", rows[owners(60, 3) == k]) for k in range(3)]
    for site in sites:
        site.ledger = Ledger(Budget(1.0, 1e-6))
    agreed = {"epsilon": 1.0, "delta": 1e-6, "clip": 60.0, "mechanism": "product", "columns": 2}
    masked = private(epsilon=1.0).fit_federation(
        secure_federation(sites, privacy={**agreed, "rounds": 2 * (STEPS + 1)})
    )
    plain = private(epsilon=1.0).fit(rows, sites=owners(60, 3))
    assert apart(masked.components_, plain.components_) < 1e-5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_its_noise_it_is_the_truncated_power_method(rows, monkeypatch):
    silent(monkeypatch)
    for k in (1, 3, 10):
        model = private().fit(rows, sites=owners(60, k))
        assert apart(model.components_, TruncatedPower(2, n_nonzero=4, **FEW).fit(rows).components_) < 1e-5
        assert np.allclose(model.mean_, rows.mean(axis=0), atol=1e-6)


def test_what_is_spent_is_the_budget_and_the_ledger_says_so(rows):
    sites = [Site("a", rows[:30]), Site("b", rows[30:])]
    for site in sites:
        site.ledger = Ledger(Budget(1.0, 1e-6))
    model = private(epsilon=1.0).fit_federation(LocalFederation(sites))
    assert 0.9 < model.spent_["epsilon"] <= 1.0
    assert len(model.spent_["releases"]["private_product"]) == 2 * (STEPS + 1)
    assert sites[0].ledger.spent() == pytest.approx(model.spent_["epsilon"], rel=0.05)
    with pytest.raises(SiteRefusal, match="the owner allows 1"):
        private(epsilon=1.0).fit_federation(LocalFederation(sites))


def test_with_many_rows_noise_does_not_matter():
    generator = np.random.default_rng(3)
    spike = np.zeros(20)
    spike[:4] = 0.5
    rows = generator.standard_normal((40000, 1)) * 2.0 * spike + 0.3 * generator.standard_normal((40000, 20))
    model = PrivateTruncatedPower(1, n_nonzero=4, epsilon=2.0, clip=3.0).fit(rows, sites=owners(40000, 3))
    assert np.flatnonzero(model.components_[0]).tolist() == [0, 1, 2, 3]
    assert abs(model.components_[0] @ spike) > 0.99


def test_it_gives_products_and_nothing_else(rows):
    site = Site("a", rows)
    site.ledger = Ledger(Budget(1.0, 1e-6))
    noised = NoisedProducts(LocalFederation([site]), Privacy(1.0, 1e-6, clip=5.0, mechanism="product"))
    with pytest.raises(FederationError, match="whole covariance"):
        DSPCA(1).fit_federation(noised)
