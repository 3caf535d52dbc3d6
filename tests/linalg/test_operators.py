from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from fedspca.linalg import operators, row_blocks
from fedspca.linalg.feature_sums import deviations_from
from fedspca.linalg.operators import DeflatedRows, Frame, StandardisedRows
from helpers.rows import KINDS


def formed(rows, frame):
    """The matrix that the operator stands for."""
    dense = np.asarray(rows.todense() if sp.issparse(rows) else rows, dtype=np.float64)
    return (dense - frame.mean) / frame.scale @ (np.eye(dense.shape[1]) - frame.removed @ frame.removed.T)


def a_frame(d, q=2, seed=0):
    rng = np.random.default_rng(seed)
    return Frame(rng.standard_normal(d), rng.uniform(0.5, 2, d), np.linalg.qr(rng.standard_normal((d, q)))[0])


@pytest.mark.parametrize("shape", [(7, 15), (40, 15), (1, 15)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_bytes", [1, 400, 1 << 23])
def test_gram_product_equals_the_formed_matrix(kind, shape, block_bytes, monkeypatch):
    for module in (row_blocks, operators):
        monkeypatch.setattr(module, "BLOCK_BYTES", block_bytes)
    rng = np.random.default_rng(1)
    rows = KINDS[kind](rng.standard_normal(shape))
    frame = a_frame(shape[1])
    a = formed(rows, frame)
    deflated = DeflatedRows(StandardisedRows(rows, frame.mean, frame.scale), frame.removed)
    # a tall site takes its Gram where many are expected, and a small one then keeps a standardised copy
    for columns, expected in ((0, 1), (1, 1), (3, 1), (6, 100), (15, 100), (2, 1000), (6, 1000)):
        deflated = replace(deflated, expected=expected)
        x = rng.standard_normal((shape[1], columns))
        assert np.allclose(deflated.gram_product(x), a.T @ (a @ x), atol=1e-9 * np.abs(a.T @ a).max())
    assert np.isclose(deflated.largest_eigenvalue(), np.linalg.norm(a, 2) ** 2, rtol=0.05)


def test_large_means_cost_few_digits():
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((50, 8)) + 1e6
    mean = rows.mean(axis=0)
    centred = rows - mean
    seen = StandardisedRows(rows, mean, np.ones(8))
    x = rng.standard_normal((8, 2))
    exact = centred.T @ (centred @ x)
    assert np.abs(seen.gram_product(x, expected=1) - exact).max() < 1e-7 * np.abs(exact).max()
    product = seen.gram_product(x, expected=1000)  # by the Gram
    assert np.abs(product - exact).max() < 1e-9 * np.abs(exact).max()
    assert np.allclose(deviations_from(rows, mean)[1], (centred**2).sum(axis=0), rtol=1e-10)


def test_a_sparse_site_is_never_made_dense(monkeypatch):
    def refuse(self, *args, **kwargs):
        raise AssertionError("densified")

    for name in ("toarray", "todense"):
        monkeypatch.setattr(sp.csr_array, name, refuse)
    rows = sp.csr_array(sp.random(50, 10, density=0.2, random_state=0))
    seen = StandardisedRows(rows, np.zeros(10), np.ones(10))
    for _ in range(30):
        seen.gram_product(np.ones((10, 4)))
    deviations_from(rows, np.ones(10))


def test_no_variance_has_no_curvature():
    seen = StandardisedRows(np.ones((4, 5)), np.ones(5), np.ones(5))
    assert DeflatedRows(seen, np.zeros((5, 0))).largest_eigenvalue() == 0.0


def test_curvature_does_not_hang_on_where_lanczos_starts():
    rows = np.outer([1.0, -1, 2, -2], [1.0, -1, -1, 1])  # orthogonal to every smooth vector
    seen = StandardisedRows(rows, np.zeros(4), np.ones(4))
    assert np.isclose(DeflatedRows(seen, np.zeros((4, 0))).largest_eigenvalue(), 40.0, rtol=0.05)


def test_an_infinite_scale_leaves_a_feature_out_exactly():
    rows = np.random.default_rng(0).standard_normal((30, 3)) + 1e15
    seen = StandardisedRows(rows, np.full(3, 1e15), np.array([1.0, np.inf, 1.0]))
    for _ in range(5):
        product = seen.gram_product(np.ones((3, 2)))
        assert np.all(product[1] == 0.0)
        assert np.isfinite(product).all()


def test_finite_means_every_entry_and_a_sum_that_overflows_is_no_proof():
    assert operators.all_finite(np.array([1e308, 1e308, -1e308]))
    assert operators.all_finite(np.array(3.0))
    assert not operators.all_finite(np.array([1.0, np.nan]))
    assert not operators.all_finite(np.array([np.inf, 1.0]))
    assert not operators.all_finite(np.array([np.inf, -np.inf]))
