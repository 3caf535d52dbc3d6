"""Many columns searched at once: beside the others they gain what `Beside` says, and sweeps end as those in turn."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedspca.linalg.cardinality import others as others_module
from fedspca.linalg.cardinality.beside import Beside
from fedspca.linalg.cardinality.column import copied
from fedspca.linalg.cardinality.joint import best_loadings
from fedspca.linalg.cardinality.others import Others
from fedspca.linalg.cardinality.points import GAIN, Points, bases, swept
from fedspca.linalg.cardinality.polish import captured, nearest_orthogonal
from fedspca.linalg.cardinality.sweeps import _own, swept_at_once, with_copies
from fedspca.linalg.cardinality.tuning import Tuning
from fedspca.linalg.stiefel import orthonormality_error

Array = NDArray[np.float64]

D, R, K = 60, 12, 5


def covariance(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((80, D))
    for _ in range(8):
        x[:, rng.choice(D, K, replace=False)] += 2.0 * rng.standard_normal((80, 1))
    return np.asarray(x.T @ x)


def columns(seed: int, orthogonal: bool) -> Array:
    """Unit columns; orthonormal ones have supports that share features, too."""
    rng = np.random.default_rng(seed)
    w = np.zeros((D, R))
    for j in range(R):
        w[rng.choice(D, K, replace=False), j] = rng.standard_normal(K)
    w /= np.linalg.norm(w, axis=0)
    if orthogonal:
        fit = nearest_orthogonal(np.eye(D) + covariance(seed), w)
        assert fit is not None
        return fit.w
    return w


@pytest.mark.parametrize("formed", [True, False])
@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_others_are_the_bases_without_each_column(
    seed: int, orthogonal: bool, formed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others_module, "_FORMED", D if formed else 0)
    s, w = covariance(seed), columns(seed, orthogonal)
    own = _own(w)
    assert own is not None
    at_once = Others(s, bases(w[None])[0], orthogonal, own)
    one_by_one = Beside(s, bases(np.array([np.delete(w, j, axis=1) for j in range(R)])), orthogonal)
    rng = np.random.default_rng(seed)
    supports = np.sort([rng.choice(D, K, replace=False) for _ in range(40)], axis=1)
    of, x = rng.integers(0, R, 40), rng.standard_normal((40, K))
    near = {"atol": 1e-9 * float(s.max())}
    np.testing.assert_allclose(at_once.each, one_by_one.each, **near)
    np.testing.assert_allclose(at_once.diagonals, one_by_one.diagonals, **near)
    np.testing.assert_allclose(at_once.captured, one_by_one.captured, **near)
    np.testing.assert_allclose(at_once.blocks(supports, of), one_by_one.blocks(supports, of), **near)
    np.testing.assert_allclose(at_once.rows(supports, of), one_by_one.rows(supports, of), **near)
    np.testing.assert_allclose(at_once.images(supports, x, of), one_by_one.images(supports, x, of), **near)
    gains, weights = one_by_one.refit(supports, of)
    np.testing.assert_allclose(at_once.refit(supports, of)[0], gains, **near)
    able = np.isfinite(gains)
    told = [beside.scores(supports[able], weights[able], gains[able], of[able]) for beside in (at_once, one_by_one)]
    np.testing.assert_allclose(*told, rtol=1e-5, atol=1e-6 * float(s.max()))


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_sweep_in_turn_gains_nothing_after_sweeps_at_once(seed: int, orthogonal: bool) -> None:
    s, w = covariance(seed), columns(seed, orthogonal)
    k, tuning = (K,) * R, Tuning.for_size(D, K, 21)
    begin = Points(w[None], np.array([captured(s, w)]))
    after = swept_at_once(s, begin, k, orthogonal, tuning, sweeps=50)
    z = after.w[0]
    assert after.variances[0] > begin.variances[0]
    assert after.variances[0] == pytest.approx(captured(s, z), rel=1e-9)
    assert (np.count_nonzero(z, axis=0) <= K).all()
    assert not orthogonal or orthonormality_error(z) < 1e-9
    again = swept(s, after, k, orthogonal, tuning, sweeps=1)
    assert again.variances[0] <= after.variances[0] * (1.0 + (GAIN if orthogonal else 1e-3))


def test_columns_of_several_sizes() -> None:
    s, w = covariance(0), columns(0, orthogonal=False)
    k = tuple(3 if j % 2 else K for j in range(R))
    for j in range(1, R, 2):
        w[np.flatnonzero(w[:, j])[3:], j] = 0.0
    w /= np.linalg.norm(w, axis=0)
    begin = Points(w[None], np.array([captured(s, w)]))
    after = swept_at_once(s, begin, k, False, Tuning.for_size(D, K, 21), sweeps=4, everywhere=True)
    assert (np.count_nonzero(after.w[0], axis=0) <= k).all()
    assert after.variances[0] == pytest.approx(captured(s, after.w[0]), rel=1e-9)


def test_dependent_columns_are_swept_in_turn() -> None:
    s, w = covariance(1), columns(1, orthogonal=False)
    w[:, 1] = w[:, 0]
    begin = Points(w[None], np.array([captured(s, w)]))
    after = swept_at_once(s, begin, (K,) * R, False, Tuning.for_size(D, K, 21), sweeps=2)
    assert _own(w) is None
    assert after.variances[0] > begin.variances[0]


def test_copies_are_found_where_they_are() -> None:
    s, w = covariance(2), columns(2, orthogonal=False)
    feature = int(np.flatnonzero(w[:, 3])[-1])
    spare = int(np.flatnonzero(~w.any(axis=1))[0]) if (~w.any(axis=1)).any() else 0
    assert with_copies(s, w, orthogonal=False) == []
    low, high = sorted((feature, spare))
    s[low], s[:, low] = s[high], s[:, high]
    s[low, low] = s[high, high]
    z = w.copy()
    z[[low, high]] = 0.0
    z[high, 3] = w[feature, 3]
    z /= np.linalg.norm(z, axis=0)
    assert with_copies(s, z, orthogonal=False) == [3]
    own = _own(z)
    assert own is not None
    beside = Others(s, bases(z[None])[0], False, own)
    ((named, others),) = copied(beside, np.flatnonzero(z[:, 3]), 3)
    assert (named, others.tolist()) == (high, [low])


@pytest.mark.parametrize("orthogonal", [True, False])
def test_many_columns_do_not_depend_on_rounding(orthogonal: bool) -> None:
    s, k = covariance(3), (4,) * 24
    tuning = Tuning.for_size(D, 4, 24)
    fit = best_loadings(s, k, orthogonal=orthogonal, tuning=tuning)
    noise = 1.0 + 1e-13 * np.random.default_rng(0).standard_normal(s.shape)
    other = best_loadings(s * 0.5 * (noise + noise.T), k, orthogonal=orthogonal, tuning=tuning)
    assert fit.variance == pytest.approx(captured(s, fit.w), rel=1e-9)
    assert other.variance == pytest.approx(fit.variance, rel=1e-9)
    assert not orthogonal or orthonormality_error(fit.w) < 1e-9
