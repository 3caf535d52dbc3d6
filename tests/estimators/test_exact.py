import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from contracts.solver import SolverContract
from fedspca import ExactSPCA, LocalFederation, Policy, Site
from fedspca.linalg.stiefel import orthonormality_error
from fedspca.metrics import recovery_error


class TestExactSPCA(SolverContract):
    def make(self, n_components=2, *, penalty=0.0, **settings):
        return ExactSPCA(n_components, lam=penalty, **settings)

    def test_a_callback_may_stop_it(self, rows):
        """Where there are rounds to stop: with the whole covariance the first is the last."""
        self.make = lambda **settings: TestExactSPCA.make(self, search="products", **settings)
        super().test_a_callback_may_stop_it(rows)


@parametrize_with_checks(
    [ExactSPCA(), ExactSPCA(lam=0.1), ExactSPCA(n_nonzero=2), ExactSPCA(1, n_nonzero=1, orthogonal=False)]
)
def test_scikit_learns_own_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def test_non_iid_synthetic_data_are_recovered():
    """The paper's third experiment: joint spikes, and at each site other directions for the rest."""
    rng = np.random.default_rng(0)
    d, truth = 500, np.zeros((2, 500))
    truth[0, :10], truth[1, 10:20] = 1 / np.sqrt(10), 1 / np.sqrt(10)
    tables = []
    for _ in range(10):
        v = np.linalg.qr(np.hstack([truth.T, rng.normal(0, rng.random(), (d, d - 2))]))[0]
        scales = np.sqrt(np.r_[400.0, 300.0, np.ones(d - 2)])
        tables.append((rng.standard_normal((100, d)) * scales) @ v.T)
    x, sites = np.vstack(tables), np.repeat(np.arange(10), 100)
    fit = ExactSPCA(2, n_nonzero=10).fit(x, sites=sites)
    assert recovery_error(fit.components_, truth) < 5e-4
    penalised = ExactSPCA(2, lam=3e4).fit(x, sites=sites)
    assert recovery_error(penalised.components_, truth) < 5e-4
    assert recovery_error(PCA(2).fit(x).components_, truth) > 1e-3


EDGE = np.random.default_rng(5)


CASES = {
    "ties": np.vstack([np.eye(12), -np.eye(12)]),
    "rank deficient": EDGE.standard_normal((40, 3)) @ EDGE.standard_normal((3, 30)),
    "duplicated columns": np.repeat(EDGE.standard_normal((40, 8)), 3, axis=1),
    "few features": EDGE.standard_normal((40, 5)),
    "few rows": EDGE.standard_normal((6, 50)),
    "tiny": 1e-6 * EDGE.standard_normal((40, 20)),
    "huge": 1e6 * EDGE.standard_normal((40, 20)),
    "one column": EDGE.standard_normal((40, 1)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["lam", "n_nonzero", "variance_kept", "free"])
def test_odd_data_give_a_solution_or_say_why_not(name, mode):
    x = CASES[name]
    size = np.linalg.norm(x - x.mean(axis=0), 2) ** 2
    settings = {
        "lam": {"lam": 0.3 * size},
        "n_nonzero": {"n_nonzero": 3},
        "variance_kept": {},
        "free": {"n_nonzero": 3, "orthogonal": False},
    }[mode]
    for r in sorted({1, 2, 3, min(x.shape)}):
        if r > min(x.shape):
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit = ExactSPCA(r, **settings).fit(x, sites=np.arange(len(x)) % 3)
        w = fit.components_
        assert w.shape == (r, x.shape[1])
        assert np.isfinite(w).all()
        assert fit.converged_ or any(issubclass(c.category, ConvergenceWarning) for c in caught)
        if mode != "free":
            assert orthonormality_error(w.T) < 1e-8
        if "n_nonzero" in settings:
            assert np.all(np.count_nonzero(w, axis=1) <= 3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lam": 1.0, "n_nonzero": 3}, "two ways"),
        ({"lam": [1.0]}, "each of the 2 components"),
        ({"lam": [1.0, -1.0]}, "non-negative"),
        ({"n_nonzero": [1, 2, 3]}, "each of the 2 components"),
        ({"n_nonzero": [1, 0]}, "at least 1"),
        ({"n_nonzero": 0}, "n_nonzero"),
        ({"variance_kept": 1.5}, "variance_kept"),
        ({"precision": "float16"}, "precision"),
    ],
)
def test_settings_that_do_not_fit_are_named(rows, settings, words):
    with pytest.raises(ValueError, match=words):
        ExactSPCA(2, **settings).fit(rows)


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((240, 20))
    rows[:, :4] += 2.0 * rng.standard_normal((240, 1))
    rows[:, 4:8] += 1.5 * rng.standard_normal((240, 1))
    return rows


def test_folds_say_how_sure_the_loadings_are(planted):
    model = ExactSPCA(2, n_nonzero=4, folds=6).fit(planted)
    support = model.components_ != 0
    assert np.array_equal(model.stable_, support)
    assert (model.selection_frequency_[support] > 0.95).all()
    assert (model.selection_frequency_[~support] < 0.2).all()
    low, high = np.moveaxis(model.weight_interval_, 2, 0)
    assert ((low <= model.components_) & (model.components_ <= high)).all()
    assert (low[support] > 0).all()
    assert ((high - low)[support] < 0.5).all()
    low, high = model.explained_variance_interval_.T
    assert ((low < model.explained_variance_) & (model.explained_variance_ < high)).all()
    assert (model.false_selections_ <= 1.0).all()
    assert model.cv_score_.shape == (2, len(model.cv_nonzeros_))
    at = list(model.cv_nonzeros_).index(4)  # the fourth feature is needed, and further ones hardly help
    assert model.cv_score_[1, at] > model.cv_score_[1, at - 1] + 0.1
    assert model.cv_score_[1, at] > model.cv_score_[1].max() - 0.005
    model.set_params(folds=None).fit(planted)
    assert not hasattr(model, "stable_")


@pytest.mark.parametrize("sparsity", [{"lam": 20.0}, {"variance_kept": 0.8}, {"n_nonzero": 4, "orthogonal": False}])
def test_folds_work_with_every_way_to_ask_for_sparsity(planted, sparsity):
    model = ExactSPCA(2, folds=4, **sparsity).fit(planted)
    assert (model.selection_frequency_ <= 1.0).all()
    assert model.selection_frequency_[:, :8].sum() > 5.9


@pytest.mark.parametrize("n_sites", [1, 3, 10])
@pytest.mark.parametrize("search", ["auto", "products"])
def test_folds_change_neither_loadings_nor_rounds(planted, n_sites, search):
    owners = np.arange(len(planted)) % n_sites
    with_folds = ExactSPCA(2, n_nonzero=4, folds=4, search=search).fit(planted, sites=owners)
    without = ExactSPCA(2, n_nonzero=4, search=search).fit(planted)
    assert np.abs(with_folds.components_ - without.components_).max() < 1e-10
    assert with_folds.n_rounds_ == without.n_rounds_


@pytest.mark.parametrize(
    ("folds", "words"),
    [(1, "even number of at least 4"), (5, "even number"), (2, "at least 4"), (2.5, "'folds' parameter")],
)
def test_folds_that_make_no_sense_are_refused(planted, folds, words):
    with pytest.raises(ValueError, match=words):
        ExactSPCA(folds=folds).fit(planted)


def test_more_folds_than_rows_are_refused(planted):
    with pytest.raises(ValueError, match="10 folds are too many"):
        ExactSPCA(1, folds=10).fit(planted[:15])
    with pytest.raises(ValueError, match="cannot go on from a state"):
        ExactSPCA(folds=4).fit_federation(None, state=object())


@pytest.mark.parametrize("n_sites", [1, 3, 10])
@pytest.mark.parametrize("search", ["thorough", "products"])
def test_an_update_is_a_new_fit_to_all_rows(n_sites, search):
    rng = np.random.default_rng(2)
    truth = np.zeros((2, 40))
    truth[0, :5], truth[1, 5:10] = 2.0, 1.5
    rows = rng.standard_normal((300, 2)) @ truth + 0.5 * rng.standard_normal((300, 40))
    sites = np.arange(300) % n_sites
    fresh = ExactSPCA(2, n_nonzero=5, search=search).fit(rows, sites=sites)
    updated = ExactSPCA(2, n_nonzero=5, search=search).fit(rows[:250], sites=sites[:250]).update(rows, sites=sites)
    assert np.array_equal(updated.components_ != 0, fresh.components_ != 0)
    assert updated.objective_ <= fresh.objective_ + 1e-8 * abs(fresh.objective_)
    assert updated.n_rounds_ <= 5
    assert updated.n_rounds_ <= fresh.n_rounds_
    assert updated.n_samples_ == 300


@pytest.mark.parametrize("r", [2, 4])
@pytest.mark.parametrize("share", [0.99, 0.8])
def test_an_update_with_lam_takes_three_rounds_by_products(r, share):
    """The features of the old loadings are asked one by one, then those that enter; then the certificate holds."""
    rng = np.random.default_rng(0)
    rows = np.hstack([load_breast_cancer().data, rng.random((569, 300))])[rng.permutation(569)]
    settings = {"lam": 190.0, "scale": True, "search": "products"}
    fresh, before = ExactSPCA(r, **settings).fit(rows), ExactSPCA(r, **settings).fit(rows[: int(569 * share)])
    updated = before.update(rows)
    assert updated.n_rounds_ - 2 <= 3 < fresh.n_rounds_ - 2
    assert updated.certificate_ <= 1e-6
    assert updated.objective_ <= fresh.objective_ + 1e-9 * abs(fresh.objective_)


def test_an_update_with_lam_asks_no_more_directions_than_owners_allow():
    rng = np.random.default_rng(0)
    rows = np.hstack([load_breast_cancer().data, rng.random((569, 300))])[rng.permutation(569)]
    before = ExactSPCA(2, lam=190.0, scale=True, search="products").fit(rows[:500])
    for most in (30, 100, 250):
        sites = [Site("a", rows, policy=Policy(max_components=most))]
        federation = LocalFederation(sites)
        asked = ExactSPCA(2, lam=190.0, scale=True, search="products")
        asked.fit_federation(federation, earlier=before.earlier_)
        assert asked.certificate_ <= 1e-6  # and no question was refused


def test_an_update_of_something_else_is_refused():
    rows = np.random.default_rng(0).standard_normal((30, 6))
    pca = ExactSPCA(1, n_nonzero=2).fit(rows)
    with pytest.raises(ValueError, match="6 features"):
        pca.update(rows[:, :5])
    federation = LocalFederation([Site("a", rows[:, :5])])
    with pytest.raises(ValueError, match="The earlier fit was to other features: these rows have 5"):
        pca.update_federation(federation)
    with pytest.raises(ValueError, match="Give only one of them"):
        pca.fit_federation(federation, state=pca.state_, earlier=pca.earlier_)
