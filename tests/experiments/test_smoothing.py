import numpy as np

from fedspca.experiments.smoothing import smoothing_curve


def test_smoothing_is_the_papers_function():
    (curve,) = smoothing_curve()
    x, smooth = np.array(curve["x"]), np.array(curve["smooth"])
    far = np.abs(x) >= 0.5e-3
    np.testing.assert_allclose(smooth[far], np.abs(x[far]))
    np.testing.assert_allclose(smooth[~far], x[~far] ** 2 / 1e-3 + 1e-3 / 4)
    assert curve["largest_gap"] == 1e-3 / 4
