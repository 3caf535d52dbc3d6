import io
import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from contracts.solver import SolverContract, owners
from fedspca import ExactSPCA, ExactState, LocalFederation, Site, StopFit, StopReason
from fedspca.experiments.data import sites_in_order
from fedspca.linalg.nystrom import Quadratic
from fedspca.linalg.proximal import minimise
from fedspca.linalg.rotations import random_rotations
from fedspca.linalg.stiefel import orthonormality_error
from fedspca.metrics import recovery_error


class TestExactSPCA(SolverContract):
    def make(self, n_components=2, *, penalty=0.0, **settings):
        return ExactSPCA(n_components, lam=penalty, **settings)


@parametrize_with_checks(
    [ExactSPCA(), ExactSPCA(lam=0.1), ExactSPCA(n_nonzero=2), ExactSPCA(1, n_nonzero=1, orthogonal=False)]
)
def test_scikit_learns_own_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


def pooled_residual(a, w, lam):
    """Least ‖2Sw − ξ − wΛ‖/‖2Sw‖ over symmetric Λ and subgradients ξ of λ‖w‖₁, by brute force: a convex problem."""
    pull = 2 * a.T @ (a @ w)
    r = w.shape[1]
    pairs = [(i, j) for i in range(r) for j in range(i, r)]
    basis = np.array([[[float({p, q} == {i, j}) for q in range(r)] for p in range(r)] for i, j in pairs])
    design = np.stack([(w @ b).ravel() for b in basis], axis=1)
    support = (w != 0).ravel()
    xi = lam * np.sign(w).ravel()
    for _ in range(500):  # alternate Λ given ξ, and ξ given Λ
        solution = np.linalg.lstsq(design, pull.ravel() - xi, rcond=None)[0]
        rest = pull.ravel() - design @ solution
        xi = np.where(support, xi, np.clip(rest, -lam, lam))
    return np.linalg.norm(rest - xi) / np.linalg.norm(pull)


@pytest.mark.parametrize(("lam", "bound"), [(190, -9307.22), (290, -8327.35)])
def test_wdbc_star_the_pooled_optimum_for_any_number_of_sites(wdbc, wdbc_standardised, lam, bound):
    fits = [ExactSPCA(2, lam=lam, scale=True).fit(wdbc, sites=sites_in_order(569, k)) for k in (1, 3, 10, 50)]
    for fit in fits:
        assert fit.objective_ <= bound
        assert fit.n_rounds_ <= 10
        assert fit.stop_reason_ is StopReason.CERTIFIED
        assert fit.certificate_ <= fit.tol
        assert orthonormality_error(fit.components_.T) < 1e-8
        assert np.array_equal(fit.components_ != 0, fits[0].components_ != 0)
        assert np.abs(fit.components_ - fits[0].components_).max() < 1e-6
    assert pooled_residual(wdbc_standardised, fits[-1].components_.T, lam) < 2e-6


def test_rows_sorted_by_their_first_score_change_nothing(wdbc, wdbc_standardised):
    order = np.argsort(PCA(1).fit_transform(wdbc_standardised)[:, 0])
    sites = sites_in_order(569, 10)
    mixed = ExactSPCA(2, lam=290, scale=True).fit(wdbc, sites=sites)
    apart = ExactSPCA(2, lam=290, scale=True).fit(wdbc[order], sites=sites)
    assert apart.n_rounds_ == mixed.n_rounds_
    assert np.abs(apart.components_ - mixed.components_).max() < 1e-6


def best_of_pooled_starts(a, r, lam, n=20):
    """Lowest objective from n random rotations of the PCA subspace, each solved on the pooled rows."""
    basis = np.linalg.svd(a, full_matrices=False)[2][:r].T
    pooled = Quadratic(a.T)
    turns = random_rotations(n, r, np.random.default_rng(7))
    return min(minimise(pooled, lam, basis @ turn, tol=1e-4).objective for turn in turns)


@pytest.mark.parametrize(("r", "lam", "bound"), [(5, 190, -11389), (5, 400, -8418), (10, 150, -14617)])
def test_more_components_reach_a_good_basin(wdbc, wdbc_standardised, r, lam, bound):
    fit = ExactSPCA(r, lam=lam, scale=True).fit(wdbc, sites=sites_in_order(569, 3))
    assert fit.objective_ <= bound
    assert fit.n_rounds_ <= 15
    assert fit.certificate_ <= fit.tol
    assert orthonormality_error(fit.components_.T) < 1e-8
    assert fit.objective_ <= best_of_pooled_starts(wdbc_standardised, r, lam) * (1 - 5e-3)


@pytest.mark.parametrize(("lam", "bound"), [(190, -11389), (400, -8418)])
def test_a_good_basin_does_not_hang_on_the_seed(wdbc, lam, bound):
    for seed in range(5):
        fit = ExactSPCA(5, lam=lam, scale=True, random_state=seed).fit(wdbc, sites=sites_in_order(569, 3))
        assert fit.objective_ <= bound
        assert fit.n_rounds_ <= 15


def test_the_objective_never_rises(wdbc):
    for r, lam in ((2, 190), (4, 250)):
        fit = ExactSPCA(r, lam=lam, scale=True).fit(wdbc, sites=sites_in_order(569, 3))
        objectives = [record.objective for record in fit.history_ if record.objective is not None]
        assert len(objectives) >= 3
        assert np.all(np.diff(objectives) <= 1e-9 * np.abs(objectives[:-1]))


def test_asking_stops_with_the_certificate(wdbc):
    fit = ExactSPCA(2, lam=290, scale=True).fit(wdbc)
    certificates = [record.certificate for record in fit.history_ if record.certificate is not None]
    assert certificates[-1] <= fit.tol < min(certificates[:-1])


def saved(state):
    """Through a file and back, without pickle."""
    buffer = io.BytesIO()
    np.savez(buffer, **state.to_arrays())
    buffer.seek(0)
    with np.load(buffer, allow_pickle=False) as arrays:
        return ExactState.from_arrays(dict(arrays))


@pytest.mark.parametrize("sparsity", [{"lam": 60.0}, {"n_nonzero": 4}, {"variance_kept": 0.9}])
def test_a_fit_interrupted_anywhere_goes_on_to_the_same_bits(rows, sparsity):
    def federation():
        return LocalFederation([Site("a", rows[:25]), Site("b", rows[25:])])

    states = []
    whole = ExactSPCA(3, **sparsity).fit_federation(federation(), on_state=states.append)
    assert len(states) >= 3
    for state in states[:-1]:
        again = ExactSPCA(3, **sparsity).fit_federation(federation(), state=saved(state))
        assert again.components_.tobytes() == whole.components_.tobytes()
        assert again.n_rounds_ == whole.n_rounds_ - 2 - state.loop.round  # and nothing is asked twice
    once = ExactSPCA(3, **sparsity).fit_federation(federation(), state=saved(whole.state_))
    assert once.n_rounds_ == 1
    assert np.allclose(once.components_, whole.components_, atol=1e-10)


def test_a_state_of_another_fit_is_refused(rows):
    federation = LocalFederation([Site("a", rows)])
    state = ExactSPCA(2, lam=60.0).fit_federation(federation).state_
    with pytest.raises(ValueError, match="other settings"):
        ExactSPCA(2, lam=61.0).fit_federation(federation, state=state)
    arrays = state.to_arrays()
    flat, short = arrays["factors"].ravel(), arrays["factors_widths"][:-1]
    for damage in ({"factors": flat}, {"factors_widths": short}):
        with pytest.raises(ValueError, match="not a saved state"):
            ExactState.from_arrays(arrays | damage)
    del arrays["mean"]
    with pytest.raises(ValueError, match="not a saved state"):
        ExactState.from_arrays(arrays)


def test_the_first_question_is_a_seed_and_answers_may_be_rounded(wdbc):
    sites = sites_in_order(569, 10)
    whole = ExactSPCA(2, lam=290, scale=True).fit(wdbc, sites=sites)
    first = next(record for record in whole.history_ if record.query == "gram_sketch")
    assert first.bytes_down < 3 * 8 * 830  # mean and scale, and no directions
    rounded = ExactSPCA(2, lam=290, scale=True, precision="float32", tol=1e-5).fit(wdbc, sites=sites)
    asked = [record for record in rounded.history_ if record.query.startswith("gram")]
    assert rounded.stop_reason_ is StopReason.CERTIFIED
    assert rounded.objective_ <= -8327.3
    assert asked[0].bytes_up == first.bytes_up / 2


def spikes(rng, kind, n=150, d=400, r=3, k=12):
    """Rows with r sparse spikes near the limit of detection."""
    loadings = np.zeros((r, d))
    for j in range(r):
        start = j * (k // 2 if kind == "overlapping" else k)
        loadings[j, start : start + k] = rng.choice([-1, 1], k) / np.sqrt(k)
    sizes = np.array([6.0, 5.0, 4.0]) if kind == "weak" else np.array([12.0, 9.0, 7.0])
    noise = rng.standard_normal((n, d))
    if kind == "correlated":
        noise = noise + 0.7 * np.roll(noise, 1, axis=1)
    x = (rng.standard_normal((n, r)) * np.sqrt(sizes)) @ loadings + noise
    return x - x.mean(axis=0)


def explained(x, w):
    q = np.linalg.qr(w)[0]
    return np.linalg.norm(x @ q) ** 2 / np.linalg.norm(x) ** 2


def truncated_pca(x, r, k):
    basis = np.linalg.svd(x, full_matrices=False)[2][:r].T
    w = np.zeros_like(basis)
    for j in range(r):
        top = np.argsort(-np.abs(basis[:, j]))[:k]
        w[top, j] = basis[top, j]
    return w / np.linalg.norm(w, axis=0)


def truncated_power(x, r, k):
    """Truncated power iterations with projection deflation, each loading from the truncated leading eigenvector."""
    s, w = x.T @ x, np.zeros((x.shape[1], r))
    for j in range(r):
        v = np.linalg.eigh(s)[1][:, -1]
        for _ in range(200):
            v = s @ v
            v[np.argsort(-np.abs(v))[:-k]] = 0.0
            v /= np.linalg.norm(v)
        w[:, j] = v
        off = np.eye(len(s)) - np.outer(v, v)
        s = off @ s @ off
    return w


@pytest.mark.parametrize("kind", ["weak", "overlapping", "correlated"])
@pytest.mark.parametrize("seed", range(3))
def test_cardinality_is_never_worse_than_the_peers(kind, seed):
    x = spikes(np.random.default_rng([seed, len(kind)]), kind)
    sites = owners(len(x), 5)
    free = ExactSPCA(3, n_nonzero=12, orthogonal=False).fit(x, sites=sites)
    strict = ExactSPCA(3, n_nonzero=12).fit(x, sites=sites)
    for fit in (free, strict):
        assert np.all(np.count_nonzero(fit.components_, axis=1) <= 12)
        assert np.allclose(np.linalg.norm(fit.components_, axis=1), 1.0)
        assert sum(record.query.startswith("gram") for record in fit.history_) <= 8
    assert orthonormality_error(strict.components_.T) < 1e-8
    best = max(explained(x, truncated_pca(x, 3, 12)), explained(x, truncated_power(x, 3, 12)))
    assert explained(x, free.components_.T) >= (1 - 1e-3) * best
    assert explained(x, strict.components_.T) >= 0.98 * best


def test_one_count_a_component_keeps_its_order(rows):
    fit = ExactSPCA(3, n_nonzero=[2, 5, 3]).fit(rows)
    assert list(np.count_nonzero(fit.components_, axis=1)) == [2, 5, 3]


@pytest.mark.parametrize("share", [0.8, 0.95, 0.999])
def test_variance_kept_is_kept(wdbc, wdbc_standardised, share):
    fit = ExactSPCA(2, variance_kept=share, scale=True).fit(wdbc, sites=sites_in_order(569, 5))
    dense = np.linalg.svd(wdbc_standardised, compute_uv=False)[:2]
    kept = np.linalg.norm(wdbc_standardised @ fit.components_.T) ** 2 / np.sum(dense**2)
    assert kept >= share - 1e-3
    assert kept == pytest.approx(fit.variance_kept_, abs=2e-3)
    assert orthonormality_error(fit.components_.T) < 1e-8


def test_variance_kept_trades_weights_for_variance(wdbc):
    counts = [
        np.count_nonzero(ExactSPCA(2, variance_kept=share, scale=True).fit(wdbc).components_)
        for share in (0.7, 0.8, 0.9, 0.95, 0.99)
    ]
    assert counts == sorted(counts)
    assert counts[0] < 60


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


def test_stopping_before_any_point_gives_the_leading_subspace(rows):
    def at_once(record):
        raise StopFit

    fit = ExactSPCA(2, lam=10.0, callbacks=[at_once]).fit(rows)
    assert fit.stop_reason_ is StopReason.CALLBACK
    assert orthonormality_error(fit.components_.T) < 1e-8


def test_too_few_rounds_are_said(wdbc):
    with pytest.warns(ConvergenceWarning, match=r"after 5 rounds with a certificate of .*max_rounds"):
        ExactSPCA(2, lam=190, scale=True, max_rounds=5).fit(wdbc)


class TestPath:
    def test_over_lam(self, wdbc):
        model = ExactSPCA(2, scale=True)
        path = model.path(wdbc, lam=[100, 150, 200, 300, 400], sites=sites_in_order(569, 5))
        assert [point.setting for point in path] == [100, 150, 200, 300, 400]
        counts = [point.n_nonzeros for point in path]
        assert counts == sorted(counts, reverse=True)
        assert path.n_rounds <= 12 + 2 * 4
        direct = ExactSPCA(2, lam=300, scale=True).fit(wdbc)
        assert abs(path[3].n_nonzeros - np.count_nonzero(direct.components_)) <= 2
        assert np.abs(path[3].components - direct.components_).max() < 1e-2

    def test_over_non_zeros_and_ways_to_choose(self, wdbc):
        path = ExactSPCA(2, scale=True).path(wdbc, n_nonzero=[2, 4, 8, 16, 32, 64])
        ratios = [point.explained_variance_ratio for point in path]
        assert ratios == sorted(ratios)
        assert path.choose("share", share=0.7).n_nonzeros < path.choose("share", share=0.85).n_nonzeros
        assert path.choose("knee") in path
        assert path.choose("bic") in path
        assert len(path.to_dict()["rounds"]) == 6
        with pytest.raises(ValueError, match="No solution of the path keeps 99%"):
            path.choose("share", share=0.99)
        with pytest.raises(ValueError, match="knee"):
            path.choose("luck")

    def test_grids_that_do_not_fit_are_named(self, rows):
        with pytest.raises(ValueError, match="either 'lam' or 'n_nonzero'"):
            ExactSPCA().path(rows)
        with pytest.raises(ValueError, match="empty"):
            ExactSPCA().path(rows, lam=[])
