import math

import numpy as np

from fedspca.dp.accounting import Cost, epsilon_of


def test_gaussians_compose_as_dp_accounting_says():
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for multiplier in (8.0, 12.0, 20.0):
        accountant.compose(GaussianDpEvent(multiplier))
    ours = epsilon_of([Cost(8.0, 0.0), Cost(12.0, 0.0), Cost(20.0, 0.0)], 1e-6)
    assert np.isclose(ours, accountant.get_epsilon(1e-6), rtol=1e-3)


def test_a_release_without_noise_costs_everything():
    assert epsilon_of([Cost(0.0, 0.0)], 1e-6) == math.inf
    assert epsilon_of([Cost(5.0, 1e-3)], 1e-6) == math.inf
    assert epsilon_of([Cost(5.0, 1e-9)], 1e-6) > epsilon_of([Cost(5.0, 0.0)], 1e-6)
