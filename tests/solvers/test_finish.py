import numpy as np

from fedspca.solvers.finish import with_fixed_signs


def test_rounding_does_not_choose_a_sign():
    w = np.array([[0.0, -1.0], [1.0, 0.5], [-1.0, 0.5]])
    for shift in (-1e-12, 0.0, 1e-12):
        moved = w.copy()
        moved[2, 0] += shift
        assert np.array_equal(np.sign(with_fixed_signs(moved)), np.sign(w * [1, -1]))
