"""Cross-validation from second moments equals the prediction of each value from the others of its row."""

import numpy as np

from fedspca.solvers.folds.crossval import Curve, components_curve, press, sparsity_curve, sparsity_grid
from fedspca.solvers.folds.sums import Centred

RNG = np.random.default_rng(4)


def moments(rows, n=None):
    return Centred(n or len(rows), rows.T @ rows, float((rows**2).sum()), np.ones(rows.shape[1]))


def planted(n, d=30, k=6, strength=3.0, rng=RNG):
    rows = rng.standard_normal((n, d))
    rows[:, :k] += strength * rng.standard_normal((n, 1)) / np.sqrt(k) * np.sqrt(k) / 2
    return rows


def test_the_score_is_that_of_predicting_each_value_from_the_others():
    rows = RNG.standard_normal((20, 6))
    w = np.linalg.qr(RNG.standard_normal((6, 2)))[0]
    w[5] = 0.0
    w = np.linalg.qr(w)[0]
    error = 0.0
    for i in range(6):
        others = np.arange(6) != i
        scores = np.linalg.lstsq(w[others], rows[:, others].T, rcond=None)[0]
        error += float(((rows[:, i] - w[i] @ scores) ** 2).sum())
    assert np.isclose(press(moments(rows), w), 1.0 - error / (rows**2).sum())


def test_a_component_of_one_feature_predicts_nothing():
    assert press(moments(RNG.standard_normal((20, 6))), np.eye(6)[:, :1]) == 0.0


def folds_of(make):
    return [(moments(make(200)), moments(make(40))) for _ in range(6)]


def test_the_planted_number_of_components_and_of_features_is_chosen():
    parts = folds_of(planted)
    assert components_curve(parts, 4).choice == 1
    assert components_curve(folds_of(lambda n: RNG.standard_normal((n, 30))), 4).choice == 0
    assert sparsity_curve(parts, (2, 3, 6, 12), 1, orthogonal=True).choice == 6


def test_one_standard_error_prefers_the_simpler_of_two_that_folds_cannot_tell_apart():
    noise = np.array([0.1, -0.1, 0.2, -0.2])
    base = np.array([0.5, 0.6, 0.4, 0.5])
    curve = Curve((1, 2, 3), np.column_stack([base - 0.3, base + noise, base + 0.01]))
    assert curve.best == 3
    assert curve.choice == 2


def test_the_grid_fits_the_features():
    assert sparsity_grid(830)[0] == 2
    assert sparsity_grid(830)[-1] == 64
    assert sparsity_grid(4) == (2, 3, 4)
    for d in range(2, 41):  # all features are tried, so that nobody is told that a part of them is the best
        assert sparsity_grid(d)[-1] == d
    assert [sparsity_grid(d)[-1] for d in (41, 119, 150, 191, 5000)] == [40, 40, 50, 63, 64]
    assert all(len(sparsity_grid(d)) <= 9 for d in range(1, 2000, 7))
    assert sparsity_grid(1) == (1,)
