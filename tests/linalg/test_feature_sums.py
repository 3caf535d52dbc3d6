import numpy as np
import pytest
import scipy.sparse as sp

from fedspca.linalg.feature_sums import column_sums, deviations_from
from helpers.rows import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_moments_equal_numpys(kind):
    rows = KINDS[kind](np.random.default_rng(2).standard_normal((23, 6)))
    dense = np.asarray(rows.todense() if sp.issparse(rows) else rows, dtype=np.float64)
    mean = np.linspace(-1, 1, 6)
    assert np.allclose(column_sums(rows), dense.sum(axis=0))
    assert np.allclose(deviations_from(rows, mean)[1], ((dense - mean) ** 2).sum(axis=0))
    assert np.allclose(deviations_from(rows, mean)[0], (dense - mean).sum(axis=0))
