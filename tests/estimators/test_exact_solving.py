import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.solvers.stopping import StopReason


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
