"""Loadings with many non-zeros: feasible, refitted on their supports, and no worse than dense ones that are cut off."""

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.linalg.cardinality.polish import captured
from fedspca.solvers.exact.columns import truncate
from fedspca.solvers.exact.many_nonzeros import MANY

R, K, D = 2, MANY + 12, 300


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    common = rng.standard_normal((120, 6)) @ rng.standard_normal((6, D)) * rng.gamma(0.5, 1.0, D)
    return common + rng.standard_normal((120, D))


@pytest.mark.parametrize("orthogonal", [True, False])
def test_they_are_feasible_and_the_best_of_their_supports(rows, orthogonal):
    s = (centred := rows - rows.mean(axis=0)).T @ centred
    found = ExactSPCA(R, n_nonzero=K, orthogonal=orthogonal, proof_seconds=0.0).fit(rows)
    w = found.components_.T
    assert np.count_nonzero(w, axis=0).max() <= K
    assert np.allclose(np.einsum("ij,ij->j", w, w), 1.0)
    if orthogonal:
        assert np.allclose(w.T @ w, np.eye(R), atol=1e-10)
    cut = truncate(np.linalg.eigh(s)[1][:, ::-1][:, :R], (K,) * R)
    assert captured(s, w) > captured(s, cut)
    assert -found.objective_ == pytest.approx(captured(s, w), rel=1e-10)
    # on their own supports nothing near is better
    rng = np.random.default_rng(0)
    for size in (1e-2, 1e-3):
        moved = w + size * rng.standard_normal(w.shape) * (w != 0.0)
        if not orthogonal:
            assert captured(s, moved) < captured(s, w)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_they_capture_no_less_than_those_found_by_products(rows, orthogonal):
    whole, products = (
        ExactSPCA(R, n_nonzero=K, orthogonal=orthogonal, search=search, proof_seconds=0.0).fit(rows).objective_
        for search in ("auto", "products")
    )
    assert whole <= products + 1e-4 * abs(products)


def test_the_order_of_rows_does_not_matter(rows):
    one, other = (ExactSPCA(R, n_nonzero=K, proof_seconds=0.0).fit(each).components_ for each in (rows, rows[::-1]))
    assert np.allclose(one, other, atol=1e-8)
