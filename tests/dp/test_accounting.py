import math

import numpy as np
import pytest

from fedspca.dp.accounting import Budget, Cost, epsilon_of


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


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-12), (50.0, 0.5), (0.5, 0.999)])
def test_a_budget_takes_any_positive_epsilon_and_a_delta_between_zero_and_one(epsilon, delta):
    assert Budget(epsilon, delta).epsilon == epsilon


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (1.0, 0.0), (1.0, -0.1), (1.0, 1.0), (1.0, 1.5), (math.nan, 0.1)]
)
def test_a_budget_of_other_numbers_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match="ε > 0 and 0 < δ < 1"):
        Budget(epsilon, delta)


def test_nothing_released_costs_nothing():
    assert epsilon_of([], 1e-6) == 0.0


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 7.0])
def test_one_release_costs_what_its_gaussian_does(multiplier):
    from dp_accounting import get_epsilon_gaussian

    assert epsilon_of([Cost(multiplier, 0.0)], 1e-6) == get_epsilon_gaussian(multiplier, 1e-6)


@pytest.mark.parametrize(("multiplier", "slack"), [(0.5, 1e-13), (1.0, 1e-10), (4.0, 1e-8), (4.0, 1e-7)])
def test_slack_takes_one_plus_e_to_the_epsilon_times_itself_from_delta(multiplier, slack):
    """Noise within s of one that is (ε, δ')-private is (ε, δ' + (1 + e^ε)s)-private, and no less will do."""
    from dp_accounting import get_epsilon_gaussian

    delta = 1e-6
    found = epsilon_of([Cost(multiplier, slack)], delta)
    left = delta - (1 + math.exp(found)) * slack
    assert 0 < left < delta
    assert found == pytest.approx(get_epsilon_gaussian(multiplier, left), rel=1e-9)


def test_slack_of_several_releases_adds_up():
    together = epsilon_of([Cost(4.0, 1e-8), Cost(4.0, 3e-8)], 1e-6)
    assert together == pytest.approx(epsilon_of([Cost(4.0 / math.sqrt(2), 4e-8)], 1e-6), rel=1e-9)


def test_slack_that_uses_up_delta_costs_everything_however_much_noise_there_is():
    assert epsilon_of([Cost(1e6, 5e-7)], 1e-6) == math.inf  # (1 + e^0) times it is δ
    assert epsilon_of([Cost(1e6, 4.9e-7)], 1e-6) < 1e-3
    assert epsilon_of([Cost(0.02, 1e-300)], 1e-6) == math.inf  # e^ε is more than a double holds


def test_more_slack_costs_more():
    found = [epsilon_of([Cost(2.0, slack)], 1e-6) for slack in (0.0, 1e-9, 1e-8, 5e-8)]
    assert found == sorted(found)
    assert len(set(found)) == 4


def test_what_does_not_settle_costs_everything(monkeypatch):
    asked = []
    monkeypatch.setattr("dp_accounting.get_epsilon_gaussian", lambda z, delta: asked.append(delta) or 1e-3 * len(asked))
    assert epsilon_of([Cost(4.0, 0.0)], 1e-6) == math.inf
    assert len(asked) == 100


def test_very_much_noise_costs_nearly_nothing():
    assert 0.0 <= epsilon_of([Cost(1e9, 0.0)], 1e-6) < 1e-3
