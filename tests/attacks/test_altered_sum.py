"""A coordinator that brings back another sum than the sites sent: it would steer what honest sites compute from it."""

import numpy as np
import pytest

from contracts.federation import make_sites, pooled
from fedspca import Query, SiteRefusal
from fedspca.federation.secure import secure_federation
from fedspca.masking import returned as back
from fedspca.masking.messages import PREVIOUS, SUMMED
from fedspca.masking.party import MaskingState

NOT_THE_SUM = "not the sum of what the sites sent"


def altered(federation, change):
    """Let the coordinator change the sum that it brings back."""
    fields, arrays = federation._previous
    federation._previous = change(dict(fields), {PREVIOUS: arrays[PREVIOUS].copy()})


def one_bit(fields, arrays):
    arrays[PREVIOUS][0] ^= np.uint64(1)
    return fields, arrays


def the_tag(fields, arrays):
    arrays[PREVIOUS][-2] ^= np.uint64(1 << 40)
    return fields, arrays


def twice(fields, arrays):
    return fields, {PREVIOUS: np.append(2 * arrays[PREVIOUS][:-1], np.uint64(0))}


def zero(fields, arrays):
    return fields, {PREVIOUS: np.zeros_like(arrays[PREVIOUS])}


def fewer_sites(fields, arrays):
    return {**fields, SUMMED: fields[SUMMED][1:]}, arrays


def shorter(fields, arrays):
    return fields, {PREVIOUS: arrays[PREVIOUS][:-1]}


def other_numbers(fields, arrays):
    return fields, {PREVIOUS: arrays[PREVIOUS].view(np.float64)}


def of_another_round(fields, arrays):
    return {**fields, PREVIOUS: 7}, arrays


CHANGES = (one_bit, the_tag, twice, zero, fewer_sites)


def begun(sizes=(5, 3, 9, 4, 6)):
    federation = secure_federation(make_sites(sizes=sizes))
    federation.sum(Query("moments"))
    return federation


def door(federation, site="clinic-1"):
    return federation._conversation._channel.endpoints[site]


@pytest.mark.parametrize("change", CHANGES)
def test_every_site_notices_and_says_nothing_more_in_this_run(change):
    federation = begun()
    altered(federation, change)
    words = "goes on without this site" if change is fewer_sites else NOT_THE_SUM
    with pytest.raises(SiteRefusal, match=words):
        federation.sum(Query("moments"))
    lines = [list(door(federation, site).audit.lines())[-1] for site in federation.sites[1:]]
    assert all(line["verdict"] == "refused" and NOT_THE_SUM in line["reason"] for line in lines)
    with pytest.raises(SiteRefusal):
        federation.sum(Query("moments"))
    last = list(door(federation).audit.lines())[-1]
    assert NOT_THE_SUM in last["reason"]  # also to a letter that brings no sum at all


@pytest.mark.parametrize(("change", "words"), [(shorter, "another form"), (other_numbers, "another form")])
def test_a_sum_of_another_form_is_refused(change, words):
    federation = begun()
    altered(federation, change)
    with pytest.raises(SiteRefusal, match=words):
        federation.sum(Query("moments"))


def test_a_sum_that_does_not_come_back_ends_the_run():
    for change in (of_another_round, None):
        federation = begun()
        if change is None:
            federation._previous = None
        else:
            altered(federation, change)
        with pytest.raises(SiteRefusal, match="was not returned"):
            federation.sum(Query("moments"))


def test_the_last_sum_is_looked_at_too():
    federation = begun()
    assert federation.finish() == {}
    federation = begun()
    altered(federation, one_bit)
    with pytest.raises(SiteRefusal, match=NOT_THE_SUM):
        federation.finish()


@pytest.mark.parametrize("restarted", [False, True])
def test_the_right_sum_comes_too_late_once_another_one_came(restarted):
    """Else a coordinator would try as often as it likes."""
    federation = begun()
    right = federation._previous
    altered(federation, one_bit)
    with pytest.raises(SiteRefusal, match=NOT_THE_SUM):
        federation.sum(Query("moments"))
    for site in federation.sites if restarted else ():
        door(federation, site)._session = None  # what it knows is read from its store
    federation._previous = right
    with pytest.raises(SiteRefusal, match=NOT_THE_SUM):
        federation.sum(Query("moments"))


def test_a_new_run_may_begin():
    federation = begun()
    altered(federation, one_bit)
    with pytest.raises(SiteRefusal, match=NOT_THE_SUM):
        federation.sum(Query("moments"))
    inside = federation._conversation
    again = type(federation)(type(inside)(inside._channel, inside._identity, inside.agreement, "0" * 32))
    assert again.sum(Query("moments")).number("rows") == len(pooled(make_sites((5, 3, 9, 4, 6))))


def test_without_the_defence_sites_take_whatever_comes_back(monkeypatch):
    """What the coordinator wins: sites would compute from its numbers, and with them ask and answer as it likes."""
    monkeypatch.setattr(back, "fits", lambda *_: True)
    taken = []
    original = back.take_sum

    def watched(*arguments):
        state, returned = original(*arguments)
        taken.append(returned)
        return state, returned

    monkeypatch.setattr("fedspca.door.masked.take_sum", watched)
    federation = begun()
    altered(federation, one_bit)
    federation.sum(Query("moments"))
    counts = [float(returned.arrays()["counts"][0]) for returned in taken if returned is not None]
    assert counts == [len(pooled(make_sites((5, 3, 9, 4, 6)))) ^ 1] * 5


def test_the_coordinator_cannot_read_the_key_of_the_tags():
    """It carries the letters in which the parts of the key travel; the key that two sites hold is the same."""
    federation = begun()
    held = [
        MaskingState.from_array(door(federation, site)._session.secrets["masking"]).held for site in federation.sites
    ]
    assert len({state["key of tags"] for state in held}) == 1
    key = bytes.fromhex(held[0]["key of tags"])
    carried = federation._ready
    assert all(key not in letters.tobytes() for letters in carried.letters.values())
