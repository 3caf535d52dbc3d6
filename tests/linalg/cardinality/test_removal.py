"""What leaving entries out costs, beside the refit that it predicts."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from fedspca.linalg.cardinality import removal
from fedspca.linalg.cardinality.polish import nearest_orthogonal, refit_orthogonal
from fedspca.linalg.cardinality.removal import cheapest_removals, single_removals
from fedspca.linalg.stiefel import orthonormality_error

S = np.corrcoef(load_breast_cancer().data.T)


def fitted(k, r=3):
    """Loadings whose supports overlap, the best on them."""
    w = np.linalg.eigh(S)[1][:, -r:]
    z = np.where(np.abs(w) >= np.sort(np.abs(w), axis=0)[-k], w, 0.0)
    return refit_orthogonal(S, nearest_orthogonal(S, z).w)


def test_a_removal_costs_what_a_refit_loses():
    fit = fitted(12)
    removals = cheapest_removals(S, fit.w, 1e-3 * fit.variance)
    assert len(removals.costs) > 3
    for n in (1, 2, len(removals.costs) - 1):
        after = nearest_orthogonal(S, removals.without(fit.w, n))
        assert np.count_nonzero(after.w) == np.count_nonzero(fit.w) - n
        assert fit.variance - after.variance == pytest.approx(removals.costs[n - 1], rel=0.1)


def test_the_weights_after_removals_are_nearly_orthonormal():
    fit = fitted(12)
    removals = cheapest_removals(S, fit.w, 1e-3 * fit.variance)
    cut = np.where(removals.without(fit.w, 3) != 0.0, fit.w, 0.0)
    assert orthonormality_error(removals.without(fit.w, 3)) < 0.2 * orthonormality_error(cut)


def test_removals_end_once_they_cost_too_much():
    fit = fitted(12)
    spare = 1e-3 * fit.variance
    costs = cheapest_removals(S, fit.w, spare).costs
    assert (costs[:-1] <= spare).all()
    assert costs[-1] > spare
    assert (np.diff(costs) >= 0.0).all()


def test_no_column_loses_its_last_entry():
    fit = fitted(4)
    removals = cheapest_removals(S, fit.w, np.inf)
    assert len(removals.costs) == np.count_nonzero(fit.w) - 3
    assert removals.without(fit.w, len(removals.costs)).any(axis=0).all()


def test_single_removals_are_the_cheapest_first():
    fit = fitted(12)
    losses = [fit.variance - nearest_orthogonal(S, z).variance for z in single_removals(S, fit.w, 2e-3 * fit.variance)]
    assert len(losses) > 3
    assert losses[0] == pytest.approx(min(losses), rel=0.05)
    assert max(losses) < 3e-3 * fit.variance


def test_copies_are_left_out_one_after_the_other():
    # once one copy is gone, the other carries the weight of both, and costs four times as much
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 6)) + rng.standard_normal((50, 1))
    x = np.hstack([x, x[:, :1]])
    s = x.T @ x
    w = np.linalg.eigh(s)[1][:, -1:]
    costs = np.diff(cheapest_removals(s, w, np.inf).costs, prepend=0.0)
    assert costs[0] > 0.0
    gone = cheapest_removals(s, w, 1e-12).without(w, 1)
    assert (gone[0, 0] == 0.0) + (gone[6, 0] == 0.0) <= 1


def test_with_many_entries_costs_are_those_of_columns_that_only_keep_their_proportions(monkeypatch):
    fit = fitted(12)
    monkeypatch.setattr(removal, "_LARGE", 5)
    removals = cheapest_removals(S, fit.w, 1e-3 * fit.variance)
    gone = removals.without(fit.w, 1)
    assert np.count_nonzero(gone) == np.count_nonzero(fit.w) - 1
    lengths = np.linalg.norm(gone, axis=0)
    kept = np.einsum("ij,ij->j", gone, S @ gone) / lengths**2
    column = int(np.argmin(lengths))
    before = float(fit.w[:, column] @ S @ fit.w[:, column])
    assert before - kept[column] == pytest.approx(removals.costs[0], abs=2e-3 * before)
