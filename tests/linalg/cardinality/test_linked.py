"""Columns that share a feature, and together capture one direction with many non-zeros."""

from contextlib import nullcontext

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.linalg.cardinality.linked import linked
from fedspca.linalg.cardinality.polish import captured
from fedspca.linalg.compiled.library import numpy_only


def one_cluster(n=8, d=15, rho=0.97):
    """A cluster of n features that say almost the same, and others that say nothing of each other."""
    s = np.eye(d)
    s[:n, :n] = rho + (1.0 - rho) * np.eye(n)
    return s


def test_a_chain_has_so_many_features_and_its_span_the_long_direction():
    for q, w in enumerate(linked(one_cluster(12, 20), 5, 3, 0.0), start=2):
        used = np.count_nonzero(w[:, :q], axis=0)
        assert (used == 5).all()
        assert np.count_nonzero(w[:, :q].any(axis=1)) == 5 * q - (q - 1)
        assert np.linalg.matrix_rank(w) == 3
    first = linked(one_cluster(), 5, 2, 0.0)[0]
    long = np.where(np.arange(15) < 8, 8**-0.5, 0.0)
    assert np.linalg.norm(long - first @ np.linalg.lstsq(first, long, rcond=None)[0]) < 1e-8


def test_chains_that_cannot_capture_enough_are_left_out():
    s = one_cluster()
    assert linked(s, 5, 2, 9.0) == []
    assert linked(s, 1, 2, 0.0) == []
    assert captured(s, linked(s, 5, 2, 8.0)[0]) < 8.8


@pytest.mark.parametrize("engine", [nullcontext, numpy_only])
def test_one_cluster_and_another_feature_are_captured_by_two_columns(engine):
    s = one_cluster()
    with engine():
        model = ExactSPCA(2, n_nonzero=5, orthogonal=False, proof_seconds=0.0).fit_covariance(s)
    assert -model.objective_ > 8.75  # 7.79 and 1 are the two largest eigenvalues
