import numpy as np
import pytest

from fedspca.experiments.alternatives import covariance_sum, merged_svds, span_error, subspace_iteration, truncate
from fedspca.experiments.data import standardised
from fedspca.experiments.methods import pca
from fedspca.experiments.partitions import by_principal_score
from fedspca.experiments.watch import SimulatedFederation
from fedspca.metrics import reconstruction_error, recovery_error

OWNERS = np.repeat(["a", "b", "c"], 20)


def parts(rows, owners=OWNERS):
    return [rows[owners == name] for name in np.unique(owners)]


def test_the_covariance_sum_and_full_merging_are_pca(rows):
    best = pca(standardised(rows))
    whole = covariance_sum(SimulatedFederation(rows, OWNERS), 2, scale=True)
    assert recovery_error(whole.components, best) < 1e-20
    merged = merged_svds(parts(rows), 2, rank=12, means="global")
    assert recovery_error(merged.components, best) < 1e-20
    assert whole.bytes_up == 8 * (12 * 13 // 2 + 2 * 12 + 2)
    assert (merged.rounds, merged.bytes_up) == (3, 8 * (12 * 12 + 2 * 12 + 2))


def test_subspace_iteration_comes_to_pca(rows):
    found = subspace_iteration(SimulatedFederation(rows, OWNERS), 2, scale=True, rounds=20, oversampling=2)
    assert recovery_error(found.components, pca(standardised(rows))) < 1e-8
    assert found.rounds == 22


def test_local_means_lose_what_lies_between_sites(rows):
    sorted_owners = by_principal_score(rows, 6)
    local = merged_svds(parts(rows, sorted_owners), 2, rank=10, means="local")
    joint = merged_svds(parts(rows, sorted_owners), 2, rank=10, means="global")
    table = standardised(rows)
    assert span_error(table, local.components) > 1.02 * span_error(table, joint.components)


def test_truncation_keeps_the_largest_weights():
    kept = truncate(np.array([[0.6, -0.8, 0.1], [0.3, 0.2, 0.9]]), 2)
    np.testing.assert_allclose(kept[0], [0.6, -0.8, 0], atol=1e-12)
    assert np.count_nonzero(kept) == 4
    np.testing.assert_allclose(np.linalg.norm(kept, axis=1), 1)


def test_the_span_error_is_the_reconstruction_error_of_orthonormal_loadings(rows):
    table = standardised(rows)
    best = pca(table)
    assert span_error(table, best) == pytest.approx(reconstruction_error(table, best))
    assert span_error(table, np.array([[1.0, 1.0], [0.0, 1.0]]) @ best) == pytest.approx(span_error(table, best))
