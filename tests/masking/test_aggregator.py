import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.federation import make_sites
from fedspca.federation.conversation import SiteLost
from fedspca.masking.party import threshold_of
from helpers.masks import step, watched

STAGES = ("keys", "shares", "masked", "unmask")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lost=st.dictionaries(st.integers(0, 5), st.sampled_from(STAGES), max_size=4), rounds=st.integers(0, 1))
def test_the_sum_is_that_of_the_survivors_or_there_is_none(lost, rounds):
    sites = make_sites(sizes=(5, 3, 9, 4, 6, 7))
    names = [site.name for site in sites]
    threshold = threshold_of(6, 3)
    assert threshold == 5
    if rounds:  # keys and shares go before the first round only
        lost = {k: stage for k, stage in lost.items() if stage in ("masked", "unmask")}
    federation, channel = watched(sites, {names[k]: stage for k, stage in lost.items()}, after=rounds)
    for iteration in range(rounds):
        federation.sum(step(sites, iteration))
    answered = [site for k, site in enumerate(names) if lost.get(k) in (None, "unmask")]
    helping = [site for k, site in enumerate(names) if k not in lost]
    if len(answered) < threshold or len(helping) < threshold:
        told = len(channel.replies("unmask"))
        with pytest.raises(SiteLost):
            federation.sum(step(sites, rounds))
        shares = len(channel.replies("unmask")) - told
        assert shares < threshold  # fewer shares than that tell nothing
        return
    answer = federation.sum(step(sites, rounds))
    twins = {site.name: site for site in make_sites(sizes=(5, 3, 9, 4, 6, 7))}
    for iteration in range(rounds):
        [twin.answer(step(sites, iteration)) for twin in twins.values()]
    expected = [twins[name].answer(step(sites, rounds)) for name in answered]
    assert answer.n_sites == len(answered)
    for term in expected[0]:
        assert np.allclose(answer[term], sum(each[term] for each in expected), rtol=1e-12, atol=1e-12)
