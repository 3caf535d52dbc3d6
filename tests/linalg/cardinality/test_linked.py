"""Columns that share features, and together capture one direction with many non-zeros."""

from contextlib import nullcontext

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.linalg.cardinality.linked import Chain, chains, ring
from fedspca.linalg.compiled.library import numpy_only

ENGINES = pytest.mark.parametrize("engine", [nullcontext, numpy_only])


def clusters(*sizes, rho=0.97):
    """Groups of so many features that say almost the same; the groups say nothing of each other."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    return np.where(group[:, None] == group, rho, 0.0) + (1.0 - rho) * np.eye(len(group))


def share_captured(s, r, k):
    model = ExactSPCA(r, n_nonzero=k, orthogonal=False, proof_seconds=0.0).fit_covariance(s)
    assert (np.count_nonzero(model.components_, axis=1) <= k).all()
    return -model.objective_ / np.linalg.eigvalsh(s)[-r:].sum()


@pytest.mark.parametrize("chain", [Chain(2, 1, 5), Chain(2, 2, 5), Chain(3, 1, 5), Chain(4, 1, 3)])
def test_a_chain_has_so_many_features_and_its_span_the_long_direction(chain):
    long, *links = chain.spans
    w = np.zeros((30, chain.length))
    w[:long, 0] = np.linspace(1.0, 2.0, long)
    for j, n in enumerate(links, start=1):
        w[long + n * (j - 1) : long + n * j, j] = 1.0
    w /= np.linalg.norm(w, axis=0)
    opened = chain.opened(w)
    assert (np.count_nonzero(opened, axis=0) == chain.k).all()
    assert np.count_nonzero(opened.any(axis=1)) == long + sum(links)
    assert np.linalg.matrix_rank(opened) == chain.length
    shared = (opened != 0.0).T.astype(int) @ (opened != 0.0)
    assert (np.diagonal(shared, 1) == chain.shared).all()
    # the long direction is a sum of the columns in which the links cancel
    parts = [np.where(w[:, 1:].any(axis=1), 0.0, column) for column in opened.T]
    scale = [np.linalg.norm(part) / np.linalg.norm(w[part != 0.0, 0]) for part in parts]
    signs = [np.sign(part @ w[:, 0]) for part in parts]
    assert np.allclose(sum(part * sign / size for part, sign, size in zip(parts, signs, scale, strict=True)), w[:, 0])


def test_a_feature_of_the_direction_that_is_a_link_is_left_to_the_link():
    w = np.zeros((12, 2))
    w[:8, 0] = 8**-0.5
    w[3, 1] = 1.0
    opened = Chain(2, 1, 5).opened(w)
    assert (np.count_nonzero(opened, axis=0) <= 5).all()
    assert np.count_nonzero(opened.all(axis=1)) == 1


def test_chains_fit_into_the_columns_and_the_features():
    assert chains(20, 5, 2) == [Chain(2, 1, 5), Chain(2, 2, 5)]
    assert chains(20, 5, 3) == [Chain(2, 1, 5), Chain(2, 2, 5), Chain(3, 1, 5)]
    assert chains(7, 5, 3) == [Chain(2, 2, 5)]
    assert chains(20, 2, 3) == [Chain(2, 1, 2)]
    assert chains(20, 1, 3) == []


@ENGINES
@pytest.mark.parametrize("m", [1, 2])
def test_one_cluster_and_the_features_of_a_link_are_captured_by_two_columns(engine, m):
    """Apart, two columns capture 5 of the 8 or 6 features of the cluster: less than .8 or .9 of the most there is."""
    with engine():
        assert share_captured(clusters(10 - 2 * m, m), 2, 5) > 0.99


@ENGINES
def test_a_link_takes_no_feature_away_that_another_column_needs(engine):
    """If the link were chosen before the third column, it would be a feature of the second cluster: .93 in all."""
    with engine():
        assert share_captured(clusters(4, 3, 1), 3, 3) > 0.99


def triangle():
    """A cluster of nine features, and three that cancel each other: all of their variance lies in a plane."""
    s = np.eye(12)
    s[:9, :9] = clusters(9)
    s[9:, 9:] = np.full((3, 3), -0.5) + 1.5 * np.eye(3)
    return s


def test_a_ring_has_the_long_direction_and_two_of_its_links_in_its_span():
    s, x = triangle(), np.where(np.arange(12) < 9, 1.0 / 3.0, 0.0)
    w, variance = ring(s, x)
    assert (np.count_nonzero(w, axis=0) == 5).all()
    assert np.allclose(np.linalg.norm(w, axis=0), 1.0)
    assert np.allclose(w @ np.linalg.lstsq(w, x, rcond=None)[0], x)
    assert variance == pytest.approx(x @ s @ x + 3.0)


def test_too_few_features_beside_the_direction_make_no_ring():
    s, x = np.eye(5), np.array([1.0, 1.0, 1.0, 0.0, 0.0]) / np.sqrt(3.0)
    w, variance = ring(s, x)
    assert not w.any()
    assert variance == 0.0


@ENGINES
def test_three_columns_in_a_ring_capture_a_cluster_and_a_plane(engine):
    """In a chain they capture the cluster and two features: .91 of the most there is."""
    with engine():
        assert share_captured(triangle(), 3, 5) > 0.99
