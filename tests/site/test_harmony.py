import numpy as np
import pytest
import scipy.sparse as sp

from fedspca.linalg.beside import Adjustment, Beside, Reference
from fedspca.linalg.operators import Frame
from fedspca.site.errors import InvalidData
from fedspca.site.harmony import harmony_of

REFERENCE = Reference(np.array([1.0, -2.0, 3.0]), np.array([2.0, 0.5, 1.0]))


def test_a_frame_of_harmonised_rows_is_one_of_raw_rows():
    rng = np.random.default_rng(0)
    x, covariates = 5 + 3 * rng.standard_normal((20, 3)), rng.standard_normal((20, 2))
    adjustment = Adjustment(np.array([0.3, -0.2]), rng.standard_normal((2, 3)))
    found = harmony_of(x, Beside(covariates), REFERENCE, adjustment)
    standing = REFERENCE.mean + (covariates - adjustment.mean) @ adjustment.coefficients
    harmonised = (x - standing - found.shift) / found.spread + standing
    frame = Frame(np.array([4.0, 5.0, 6.0]), np.array([2.0, 3.0, 4.0]), np.zeros((3, 0)), adjustment, REFERENCE)
    seen = found.seen(frame)
    raw = (x - seen.mean - Beside(covariates).explained(seen.adjustment)) / seen.scale
    assert np.allclose(raw, (harmonised - frame.mean) / frame.scale, atol=1e-12)


def test_a_large_shift_costs_no_digits():
    x = np.random.default_rng(1).standard_normal((30, 3))
    near, far = (harmony_of(x + shift, Beside(), REFERENCE, None) for shift in (0.0, 1e7))
    assert np.allclose(near.spread, far.spread, rtol=1e-3)  # the priors differ a little with the shift
    assert np.allclose(harmony_of(sp.csr_array(x), Beside(), REFERENCE, None).spread, near.spread, rtol=1e-12)


def test_a_feature_without_spread_is_left_as_it_is():
    x = np.random.default_rng(2).standard_normal((30, 3))
    found = harmony_of(x, Beside(), Reference(REFERENCE.mean, np.array([1.0, 0.0, 1.0])), None)
    assert (found.shift[1], found.spread[1]) == (0.0, 1.0)
    assert (found.shift[[0, 2]] != 0).all()


def test_one_row_and_one_feature_have_no_effect_to_estimate():
    with pytest.raises(InvalidData, match="two rows or more"):
        harmony_of(np.ones((1, 3)), Beside(), REFERENCE, None)
    with pytest.raises(InvalidData, match="1 such feature"):
        harmony_of(np.ones((4, 3)), Beside(), Reference(REFERENCE.mean, np.array([1.0, 0.0, 0.0])), None)
