"""ExactSPCA where the whole covariance is known: one sum, a search, a bound."""

import csv
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning

from fedspca import ExactSPCA, LocalFederation, Policy, Site, SiteRefusal, SparsePCAModel
from fedspca.federation.covariance import CovarianceFederation
from fedspca.federation.secure import secure_federation
from fedspca.linalg.symmetric import unpack
from fedspca.site.errors import InvalidData
from fedspca.site.question import Query
from fedspca.solvers.exact import whole
from fedspca.solvers.stopping import StopReason

WDBC = load_breast_cancer().data
WINE = load_wine().data
PITPROPS = Path(__file__).parents[3] / "benchmarks" / "pitprops.csv"


def standardised(x):
    return (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)


def frame(x):
    return {"mean": x.mean(axis=0), "scale": x.std(axis=0, ddof=1), "removed": np.zeros((x.shape[1], 0))}


def gram_of(federation, x):
    return unpack(federation.sum(Query("gram", frame(x), {"precision": "float64"}))["gram"])


def sites_of(x, n, **about):
    return [Site(f"s{i}", part, **about) for i, part in enumerate(np.array_split(x, n))]


def pitprops():
    with PITPROPS.open() as file:
        names, *rows = csv.reader(file)
    return np.array(rows, dtype=float), names


# -- the question ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sp.csr_array, lambda x: x.astype(np.float32)])
@pytest.mark.parametrize("n", [1, 4])
def test_the_sum_is_the_pooled_covariance(make, n):
    a = standardised(WINE)
    parts = [Site(f"s{i}", make(part)) for i, part in enumerate(np.array_split(WINE, n))]
    tolerance = 1e-9 if make(WINE).dtype == np.float64 else 1e-3
    assert np.allclose(gram_of(LocalFederation(parts), WINE), a.T @ a, atol=tolerance * len(a))


def test_rows_in_blocks_add_up(monkeypatch):
    monkeypatch.setattr("fedspca.linalg.row_blocks.BLOCK_BYTES", 2000)
    a = standardised(WINE)
    assert np.allclose(gram_of(LocalFederation([Site("all", WINE)]), WINE), a.T @ a, atol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_missing_values_stand_at_the_mean(make):
    x = WINE.copy()
    x[::7, 3] = np.nan
    about = frame(WINE)
    a = np.where(np.isnan(x), 0.0, x - about["mean"]) / about["scale"]
    federation = LocalFederation([Site("all", make(x), allow_missing=True)])
    assert np.allclose(gram_of(federation, WINE), a.T @ a, atol=1e-8)


def test_under_masks_the_sum_is_the_same():
    federation = secure_federation(sites_of(WINE, 3))
    federation.sum(Query("moments"))
    federation.sum(Query("deviations", {"mean": WINE.mean(axis=0)}))
    a = standardised(WINE)
    assert np.allclose(gram_of(federation, WINE), a.T @ a, atol=1e-9)
    assert federation.answers_gram()


def test_an_owner_limits_it():
    site = Site("north", WINE, policy=Policy(max_gram_features=12))
    with pytest.raises(SiteRefusal, match="whole covariance of 13 features and the policy allows it for at most 12"):
        gram_of(LocalFederation([site]), WINE)
    assert Policy(max_gram_features=None).allows_gram(10**6)
    assert not Policy(max_gram_features=0).allows_gram(1)
    assert not Policy(allowed_queries={"moments"}).allows_gram(1)
    with pytest.raises(ValueError, match="max_gram_features"):
        Policy(max_gram_features=-1)


def test_where_it_is_not_allowed_rounds_of_products_take_its_place():
    sites = sites_of(WINE, 3, policy=Policy(max_gram_features=0))
    model = ExactSPCA(1, n_nonzero=5, scale=True).fit_federation(LocalFederation(sites))
    assert "gram" not in [record.query for record in model.history_]
    assert model.bound_is_dense_
    with pytest.raises(SiteRefusal):
        ExactSPCA(1, n_nonzero=5, scale=True, search="thorough").fit_federation(LocalFederation(sites))


# -- the answer --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "best"), [(2, 1134.7818), (4, 2236.1356), (6, 3325.7485)])
def test_wdbc_the_best_component_is_found_and_proved(k, best):
    model = ExactSPCA(1, n_nonzero=k, scale=True, proof_seconds=5.0).fit(WDBC)
    assert -model.objective_ == pytest.approx(best, abs=1e-3)
    assert model.stop_reason_ is StopReason.PROVED
    assert model.stop_reason_.value == "it is proved that nothing is better"
    assert model.converged_
    assert model.optimality_gap_ < 1e-6
    assert model.n_rounds_ == 3


@pytest.mark.parametrize("k", range(4, 11))
def test_pitprops_is_proved(k):
    published = {4: 2.937, 5: 3.406, 6: 3.771, 7: 3.996, 8: 4.069, 9: 4.139, 10: 4.173}
    s, names = pitprops()
    model = ExactSPCA(1, n_nonzero=k, proof_seconds=10.0).fit_covariance(s, feature_names=names)
    assert -model.objective_ == pytest.approx(published[k], abs=6e-4)
    assert model.stop_reason_ is StopReason.PROVED


@pytest.mark.parametrize("lam", [0.3, 0.8])
def test_pitprops_with_a_penalty_is_proved(lam):
    s, _ = pitprops()
    model = ExactSPCA(1, lam=lam, proof_seconds=10.0).fit_covariance(s)
    assert model.stop_reason_ is StopReason.PROVED
    assert model.optimality_gap_ == 0.0
    assert model.upper_bound_ == -model.objective_
    assert model.certificate_ <= model.tol
    without = ExactSPCA(1, lam=lam, proof_seconds=0.0).fit_covariance(s)
    assert without.bound_is_dense_
    assert without.stop_reason_ is StopReason.CERTIFIED


NEARLY_PARALLEL = (
    (
        [3, 2, 2],
        [
            [401.09326352135548, 6.4445362792487684, 0.040323388560803614, -3.4452390762023688],
            [6.4445362792487684, 14.099384681979501, -0.0061949232084458810, 4.6049823752476033],
            [0.040323388560803614, -0.0061949232084458810, 1.2051924566990705e-04, -0.011434185972734217],
            [-3.4452390762023688, 4.6049823752476033, -0.011434185972734217, 7.0186850145546105],
        ],
    ),
    (
        [2, 2, 3],
        [
            [8.9992702174814097e-06, -3.3418756761376439e-03, 2.3550770957802823e-05, 2.1519674645216681e-05],
            [-3.3418756761376439e-03, 2.3319169299650049e01, 2.6471494646149701e-01, 2.3857991444367906e-02],
            [2.3550770957802823e-05, 2.6471494646149701e-01, 6.3440787476983090e-03, 8.1550873016459377e-04],
            [2.1519674645216681e-05, 2.3857991444367906e-02, 8.1550873016459377e-04, 5.2040362895469173e-04],
        ],
    ),
)


@pytest.mark.parametrize(("counts", "s"), NEARLY_PARALLEL)
def test_more_time_for_a_proof_never_ends_lower(counts, s):
    """Searches see seven digits. Nearly parallel loadings looked better, and were not to all digits."""
    s = np.array(s)
    captured = []
    for seconds in (0.0, 0.05, 0.25):
        end = ExactSPCA(3, n_nonzero=counts, orthogonal=False, proof_seconds=seconds).fit_covariance(s)
        basis = np.linalg.qr(end.components_.T)[0]
        captured.append(float(np.vdot(basis, s @ basis)))
        assert end.upper_bound_ >= captured[-1] * (1 - 1e-9)
        assert -end.objective_ == pytest.approx(captured[-1], rel=1e-9)
    assert min(captured) >= captured[0] * (1 - 1e-9)


def test_time_brings_the_bound_on_several_penalised_components_closer():
    s = np.corrcoef(load_wine().data.T)
    fits = [ExactSPCA(2, lam=0.8, proof_seconds=t).fit_covariance(s) for t in (1e-9, 0.01, 2.0)]
    gaps = [fit.optimality_gap_ for fit in fits]
    assert gaps[0] > gaps[1] > gaps[2] > 0.01
    assert {fit.stop_reason_ for fit in fits} == {StopReason.CERTIFIED}


VARIANTS = {
    "three sites": lambda x: (x, np.arange(len(x)) * 3 // len(x)),
    "ten sites": lambda x: (x, np.arange(len(x)) * 10 // len(x)),
    "permuted": lambda x: (np.random.default_rng(0).permutation(x), None),
    "reversed": lambda x: (x[::-1].copy(), None),
    "columns first": lambda x: (np.asfortranarray(x), None),
    "noise": lambda x: (x * (1 + 1e-13 * np.random.default_rng(1).standard_normal(x.shape)), None),
}


@pytest.mark.parametrize(("r", "k"), [(1, 2), (1, 5), (2, 4), (3, 4), (5, 2)])
def test_the_answer_does_not_hang_on_rounding(r, k):
    def fitted(rows, sites=None):
        return ExactSPCA(r, n_nonzero=k, scale=True, proof_seconds=0.0).fit(rows, sites=sites).components_

    plain = fitted(WINE)
    for name, vary in VARIANTS.items():
        assert np.abs(fitted(*vary(WINE)) - plain).max() < 1e-8, name


@pytest.mark.parametrize("asked", [{"n_nonzero": 4, "orthogonal": False}, {"lam": 90.0}, {"variance_kept": 0.7}])
def test_nor_does_it_in_any_other_mode(asked):
    def fitted(rows, sites=None):
        return ExactSPCA(2, scale=True, proof_seconds=0.0, **asked).fit(rows, sites=sites).components_

    plain = fitted(WINE)
    for name in ("ten sites", "noise"):
        varied = fitted(*VARIANTS[name](WINE))
        assert np.array_equal(varied != 0, plain != 0), name
        assert np.abs(varied - plain).max() < 1e-8, name


@pytest.mark.parametrize(
    ("table", "r", "asked"),  # each ended elsewhere for one of the variants, when a search saw all digits of S
    [
        (WINE, 3, {"lam": 8.9}),
        (WINE, 4, {"n_nonzero": 6, "orthogonal": False}),
        (WDBC, 4, {"lam": 28.45}),
        (WDBC, 5, {"lam": 113.8}),
        (WDBC, 2, {"lam": 569.0}),
    ],
)
def test_searches_that_depend_on_every_digit_see_seven(table, r, asked):
    x = standardised(table)

    def fitted(rows, sites=None):
        return ExactSPCA(r, proof_seconds=0.0, **asked).fit(rows, sites=sites).components_

    plain = fitted(x)
    for name, vary in VARIANTS.items():
        assert np.abs(fitted(*vary(x)) - plain).max() < 1e-8, name


def test_where_what_a_search_sees_keeps_too_little_of_s_it_is_repeated_on_s(monkeypatch):
    seen = whole.Seen(np.eye(13), np.ones(2), np.eye(13)[:, :2])  # as if S were the identity: two features are enough
    monkeypatch.setattr(whole, "_to_seven_digits", lambda _: seen)
    model = ExactSPCA(2, variance_kept=0.9, scale=True, proof_seconds=0.0).fit(WINE)
    assert model.variance_kept_ >= 0.9 * (1.0 - 1e-9)


def test_a_penalised_solution_is_one_of_all_digits():
    model = ExactSPCA(2, lam=90.0, scale=True, proof_seconds=0.0).fit(WINE)
    assert model.certificate_ < 1e-10


@pytest.mark.parametrize("search", ["thorough", "products"])
@pytest.mark.parametrize("asked", [{"n_nonzero": 4}, {"lam": 300.0}, {"variance_kept": 0.8}])
def test_a_fit_that_runs_out_of_time_ends_with_what_it_has_and_says_so(asked, search):
    with pytest.warns(ConvergenceWarning, match="time is spent"):
        model = ExactSPCA(3, scale=True, max_seconds=1e-9, search=search, proof_seconds=0.0, **asked).fit(WDBC)
    assert model.stop_reason_ is StopReason.MAX_SECONDS
    assert not model.converged_
    assert np.abs(model.components_ @ model.components_.T - np.eye(3)).max() < 1e-9
    if "n_nonzero" in asked:
        assert (np.count_nonzero(model.components_, axis=1) <= 4).all()


def test_seeds_do_not_matter():
    fits = [ExactSPCA(2, n_nonzero=3, scale=True, random_state=seed, proof_seconds=0.0).fit(WINE) for seed in (0, 7)]
    assert np.array_equal(fits[0].components_, fits[1].components_)


def test_weights_are_the_leading_eigenvector_of_their_block():
    model = ExactSPCA(1, n_nonzero=6, scale=True).fit(WDBC)
    a = standardised(WDBC)
    support = np.flatnonzero(model.components_[0])
    values, vectors = np.linalg.eigh((a.T @ a)[np.ix_(support, support)])
    assert -model.objective_ == pytest.approx(values[-1], rel=1e-10)
    weights = vectors[:, -1] * np.sign(vectors[np.argmax(np.abs(vectors[:, -1])), -1])
    assert np.abs(model.components_[0, support] - weights).max() < 1e-8


@pytest.mark.parametrize("asked", [{"n_nonzero": 4}, {"lam": 300.0}, {"variance_kept": 0.8}])
def test_the_bound_is_told_for_every_way_to_ask(asked, tmp_path):
    model = ExactSPCA(2, scale=True, **asked).fit(WDBC)
    assert model.upper_bound_ >= -model.objective_
    assert model.optimality_gap_ == pytest.approx(model.upper_bound_ / -model.objective_ - 1, abs=1e-12)
    assert model.history_[-1].upper_bound == model.upper_bound_
    assert not model.bound_is_dense_
    kept = SparsePCAModel.from_estimator(model)
    kept.save(tmp_path / "model")
    loaded = SparsePCAModel.load(tmp_path / "model")
    assert "proved" in loaded.optimality()
    assert loaded.to_estimator().optimality_gap_ == model.optimality_gap_


def test_without_the_whole_covariance_the_bound_is_dense_and_said_to_be():
    model = ExactSPCA(2, n_nonzero=4, scale=True, search="products").fit(WDBC)
    values = np.linalg.eigvalsh(standardised(WDBC).T @ standardised(WDBC))
    assert model.bound_is_dense_
    assert model.upper_bound_ >= values[-2:].sum() * (1 - 1e-9)
    assert "dense PCA" in SparsePCAModel.from_estimator(model).optimality()


def test_constant_features_take_no_part():
    x = np.hstack([WINE, np.ones((len(WINE), 1))])
    with pytest.warns(UserWarning, match="one value"):
        model = ExactSPCA(1, n_nonzero=5, scale=True).fit(x)
    plain = ExactSPCA(1, n_nonzero=5, scale=True).fit(WINE)
    assert np.allclose(model.components_[0, :-1], plain.components_[0])
    assert model.components_[0, -1] == 0.0


def test_variance_kept_asked_more_keeps_more():
    counts = [
        int(np.count_nonzero(ExactSPCA(2, variance_kept=share, proof_seconds=0.0, scale=True).fit(WINE).components_))
        for share in (0.5, 0.7, 0.8, 0.9, 0.95)
    ]
    assert counts == sorted(counts)


@pytest.mark.parametrize("seed", [0, 2, 5, 7])
def test_variance_kept_does_not_need_more_than_numbers_that_differ_by_one(seed):
    """Two in each loading kept the share, and so do two in one and one in the other."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((30, 8))
    x[:, :3] += 1.5 * rng.standard_normal((30, 1))
    kept = ExactSPCA(2, variance_kept=0.8).fit_covariance(x.T @ x)
    given = [ExactSPCA(2, n_nonzero=counts).fit_covariance(x.T @ x) for counts in ([2, 1], [1, 2])]
    assert max(each.variance_kept_ for each in given) >= 0.8
    assert kept.variance_kept_ >= 0.8
    assert np.count_nonzero(kept.components_) == 3


def test_variance_kept_names_one_of_each_pair_of_copies():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 2)) @ np.diag([3.0, 2.0])
    x = np.hstack([x, x]) + 1e-3 * rng.standard_normal((200, 4))
    model = ExactSPCA(2, variance_kept=0.45).fit(x)
    assert np.count_nonzero(model.components_) <= 3


def test_a_path_asks_once():
    federation = LocalFederation(sites_of(WINE, 3))
    path = ExactSPCA(2, scale=True, proof_seconds=0.0).path_federation(federation, n_nonzero=[2, 4, 6])
    assert path.n_rounds == 3
    ratios = [model.explained_variance_ratio for model in path.models]
    assert ratios == sorted(ratios)


# -- a covariance and nothing else -------------------------------------------------------------------------------------


def test_a_covariance_gives_what_its_rows_give():
    whole = ExactSPCA(2, n_nonzero=4, scale=True).fit(WINE)
    known = ExactSPCA(2, n_nonzero=4, scale=True).fit_covariance(np.cov(WINE.T), n_samples=len(WINE))
    assert np.allclose(known.components_, whole.components_, atol=1e-9)
    assert known.objective_ == pytest.approx(whole.objective_, rel=1e-9)
    assert np.allclose(known.explained_variance_ratio_, whole.explained_variance_ratio_)


def test_where_rows_are_not_counted_features_limit_the_components():
    s, _ = pitprops()
    assert ExactSPCA(4, n_nonzero=2, proof_seconds=0.0).fit_covariance(s).components_.shape == (4, 13)
    told = pytest.warns(UserWarning, match="3 rows vary in 2 directions at most")
    with told, pytest.raises(InvalidData, match="n_components"):
        ExactSPCA(4, n_nonzero=2).fit_covariance(s, n_samples=3)


def test_products_answer_from_a_covariance_too():
    s = np.cov(WINE.T)
    model = ExactSPCA(1, lam=100.0, scale=True, search="products").fit_covariance(s, n_samples=len(WINE))
    assert model.objective_ == pytest.approx(ExactSPCA(1, lam=100.0, scale=True).fit(WINE).objective_, rel=1e-6)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.5], [0.4, 1.0]], "not symmetric: 0.5 in row 1, column 2, and 0.4 in row 2, column 1"),
        ([[1.0, 0.5], [0.4, 1.0]], "Correct the wrong one of the two"),
        ([[1.0, 0.5], [0.0, 1.0]], "One triangle holds only zeros: fill it in from the other one"),
        (
            [[1.0, 0.9, 0.9], [0.9, 1.0, -0.9], [0.9, -0.9, 1.0]],
            r"not positive semidefinite: its eigenvalues go from -0\.8 to 1\.9",
        ),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 1.4], [0.0, 1.4, 1.0]], r"1\.4 in row 2, column 3, where it can be at most 1 "),
        ([[4.0, 1.0], [1.0, 0.0]], "1 in row 1, column 2, where it can be at most 0 "),
        ([[4.0, 0.0], [0.0, -1.0]], "negative variance: -1 in row 2, column 2"),
        ([[1.0, np.nan], [np.nan, 1.0]], "NaN"),
        ([[1.0, 0.5, 0.1]], "square"),
        ([["a"]], "numbers"),
        (np.zeros((2, 2)), "no feature varies"),
        ([[1.0, 0.0], [0.0, 1e200]], r"too large to square: 1e\+200 in row 2, column 2"),
        (np.eye(3) * 1e300, "too large to square"),
        ([[1.0, 1j], [-1j, 1.0]], "complex"),
        (-np.eye(2), "negative variance: -1 in row 1, column 1"),
    ],
)
def test_what_is_no_covariance_is_refused_with_its_numbers(matrix, message):
    with pytest.raises(InvalidData, match=message):
        CovarianceFederation(matrix)


def test_names_and_rows_of_a_covariance_are_checked():
    with pytest.raises(InvalidData, match="3 names"):
        CovarianceFederation(np.eye(2), feature_names=["a", "b", "c"])
    with pytest.raises(InvalidData, match="different"):
        CovarianceFederation(np.eye(2), feature_names=["a", "a"])
    with pytest.raises(InvalidData, match="n_samples=1"):
        CovarianceFederation(np.eye(2), 1)
    for wrong in (2.5, "178", np.nan, np.inf, True):
        with pytest.raises(InvalidData, match=r"is a whole number\. Got n_samples="):
            CovarianceFederation(np.eye(2), wrong)
    assert CovarianceFederation(np.eye(2), np.float64(178)).n_samples == 178
