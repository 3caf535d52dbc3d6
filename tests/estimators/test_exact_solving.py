import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning

from fedspca import ExactSPCA
from fedspca.estimators.exact_solving import stopped_early
from fedspca.solvers.exact import whole
from fedspca.solvers.stopping import StopReason

WDBC = load_breast_cancer().data


def spiked_in_single(*, mean=0.0, n=20_000, d=220):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d)) + mean
    for j, size in enumerate((3.0, 2.0)):
        x[:, 8 * j : 8 * j + 8] += size * rng.standard_normal((n, 1))
    return x.astype(np.float32)


@pytest.mark.parametrize("search", ["thorough", "products"])
@pytest.mark.parametrize("mean", [0.0, 1e4])
def test_many_rows_in_single_precision_are_fitted_nearly_as_in_double(search, mean):
    rows = spiked_in_single(mean=mean)
    settings = {"n_nonzero": 8, "search": search}
    single = ExactSPCA(2, **settings).fit(rows, sites=np.arange(len(rows)) % 3)
    double = ExactSPCA(2, precision="float64", **settings).fit(rows)
    sent = [max(record.bytes_up for record in model.history_[2:]) for model in (single, double)]
    assert sent[0] < sent[1]  # answers are in single precision
    assert np.array_equal(single.components_ != 0, double.components_ != 0)
    assert np.allclose(single.components_, double.components_, atol=1e-5)
    assert np.isclose(single.objective_, double.objective_, rtol=1e-6)
    assert np.isclose(single.total_variance_, double.total_variance_, rtol=1e-7)
    # the bound is valid of the rows themselves, and says that rounding was allowed for
    assert single.upper_bound_ > double.upper_bound_ >= -double.objective_
    if search == "thorough":  # by products, the bound is that of dense PCA, and of a rougher model
        assert single.optimality_gap_ < double.optimality_gap_ + 1e-3
    assert single.stop_reason_ is not StopReason.PROVED


def test_a_certificate_is_never_from_single_precision_unless_asked():
    rows = spiked_in_single()
    single = ExactSPCA(2, lam=2e4).fit(rows)
    double = ExactSPCA(2, lam=2e4).fit(rows.astype(np.float64))
    assert single.certificate_ <= 1e-6
    assert np.allclose(single.components_, double.components_, atol=1e-6)
    assert single.history_[-1].bytes_up == double.history_[-1].bytes_up


def test_few_rows_in_single_precision_are_multiplied_in_double():
    rows = spiked_in_single(n=500)
    one, two = (ExactSPCA(2, n_nonzero=8, precision=word).fit(rows) for word in ("auto", "float64"))
    assert np.array_equal(one.components_, two.components_)


def test_numbers_of_nonzeros_may_be_an_array():
    listed, array = (ExactSPCA(2, n_nonzero=k, scale=True).fit(WDBC) for k in ([3, 4], np.array([3, 4])))
    assert np.array_equal(listed.components_, array.components_)
    assert np.count_nonzero(array.components_, axis=1).tolist() == [3, 4]


@pytest.mark.parametrize(("r", "k"), [(1, 6), (2, 2), (2, 3)])
def test_the_gap_is_nothing_where_nothing_is_better(r, k):
    model = ExactSPCA(r, n_nonzero=k, scale=True, proof_seconds=5.0).fit(WDBC)
    assert model.stop_reason_ is StopReason.PROVED
    assert model.optimality_gap_ == 0.0
    assert model.upper_bound_ == -model.objective_


def test_a_proof_takes_no_longer_than_the_fit_may(monkeypatch):
    given = []
    true = whole.bound_loadings

    def spied(*args, seconds, **settings):
        given.append(seconds)
        return true(*args, seconds=0.0, **settings)

    monkeypatch.setattr(whole, "bound_loadings", spied)
    ExactSPCA(2, n_nonzero=3, scale=True, max_seconds=100.0, proof_seconds=1000.0).fit(WDBC)
    ExactSPCA(2, n_nonzero=3, scale=True, max_seconds=1000.0, proof_seconds=3.0).fit(WDBC)
    assert 0.0 <= given[0] < 100.0
    assert given[1] == 3.0


def test_out_of_time_with_a_certificate_that_holds_is_told_as_that():
    with pytest.warns(ConvergenceWarning, match="The certificate holds") as told:
        ExactSPCA(2, lam=300.0, scale=True, max_seconds=1e-9).fit(WDBC)
    assert "Allow more time (max_seconds)." in str(told[0].message)
    assert "tol" not in str(told[0].message)


def test_what_helps_is_what_would_help():
    told = stopped_early(StopReason.MAX_ROUNDS, 30, 0.01, 1e-6)
    assert told.startswith("stopped after 30 rounds with a certificate of 1.0e-02 (tol=1e-06): ")
    assert told.endswith("Allow more rounds (max_rounds).")
    assert "larger tol" in stopped_early(StopReason.STALLED, 1, 0.01, 1e-6)
    assert "after 1 round:" in stopped_early(StopReason.MAX_SECONDS, 1, None, 1e-6)


@pytest.mark.parametrize("settings", [{"n_nonzero": 20}, {"n_nonzero": [2, 20]}, {"n_nonzero": 20, "sample": 2}])
def test_more_non_zeros_than_features_are_told_of_once(settings):
    with pytest.warns(UserWarning, match="n_nonzero is 20, and there are 13 features") as told:
        fitted = ExactSPCA(2, scale=True, **settings).fit(load_wine().data)
    assert len(told) == 1
    assert np.count_nonzero(fitted.components_[1]) == 13


def test_a_path_with_more_non_zeros_than_features_says_so():
    with pytest.warns(UserWarning, match="n_nonzero is 20, and there are 13 features") as told:
        ExactSPCA(2, scale=True).path(load_wine().data, n_nonzero=[2, 20])
    assert len(told) == 1


@pytest.mark.parametrize("settings", [{"n_nonzero": 3}, {"lam": 10.0}])
def test_a_share_to_keep_is_not_used_beside_another_sparsity(settings):
    with pytest.warns(UserWarning, match=r"variance_kept=0\.8 is not used, since"):
        ExactSPCA(2, variance_kept=0.8, scale=True, **settings).fit(load_wine().data)
