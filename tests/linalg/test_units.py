"""When a feature of a site is so much larger or smaller than elsewhere that its unit may be wrong."""

import numpy as np

from fedspca.linalg.profile import Profile
from fedspca.linalg.units import FACTOR, LONE_FACTOR, unit_factors

ELSEWHERE = Profile(50, np.array([10.0]), np.array([2.0]), np.zeros(1))


def beside(mean, spread, others=ELSEWHERE):
    return float(unit_factors(Profile(50, np.array([mean]), np.array([spread]), np.zeros(1)), others)[0])


def test_mean_and_spread_must_both_differ_and_in_the_same_direction():
    assert beside(10.0 * FACTOR, 2.0 * FACTOR) == FACTOR
    assert beside(10.0 * 0.99 * FACTOR, 2.0 * FACTOR) == 1
    assert beside(10.0 / 4, 2.0 / 4) == 1 / 4
    assert beside(10.0 * FACTOR, 2.0) == 1  # other patients, in the same unit
    assert beside(10.0, 2.0 * FACTOR) == 1
    assert beside(10.0 * FACTOR, 2.0 / FACTOR) == 1
    assert beside(-10.0 * FACTOR, 2.0 * FACTOR) == 1


def test_means_near_zero_need_a_larger_factor():
    centred = Profile(50, np.array([0.1]), np.array([2.0]), np.zeros(1))
    assert beside(0.1, 0.99 * LONE_FACTOR * 2.0, centred) == 1
    assert beside(0.1, 1.01 * LONE_FACTOR * 2.0, centred) > LONE_FACTOR


def test_a_constant_has_no_unit():
    assert beside(1000.0, 0.0) == 1
