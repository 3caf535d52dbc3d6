"""A site among many: it masks with neighbours of its own choice, and is in no sum but that over all."""

from dataclasses import replace

import numpy as np
import pytest

from fedspca import SiteRefusal
from fedspca.letters.wire import Message, WireError
from fedspca.masking import neighbours
from fedspca.masking.fixed_point import decode_terms
from fedspca.masking.messages import LETTER, PREVIOUS, SUMMED
from fedspca.masking.neighbours import add_pair_masks, check_masked, choice_in, introduce, mask_among_neighbours
from fedspca.masking.party import masks_are_for
from fedspca.masking.returned import AlteredSum, take_sum
from fedspca.masking.secret_sharing import BrokenSecret
from helpers.neighbours import MANY, Neighbours, segments, total
from helpers.protocol import FEATURES, MOMENTS, terms_of

TERMS = terms_of(MANY)


@pytest.fixture
def ready():
    return Neighbours().introduce()


def test_the_masks_cancel_in_the_sum_over_all(ready):
    for number in (1, 2, 7):
        found = decode_terms(total(ready.vectors(TERMS, number=number).values()), segments())
        for name, array in found.items():
            assert np.allclose(array, sum(terms[name] for terms in TERMS.values()))


def test_in_no_smaller_sum_do_they_cancel(ready):
    vectors = ready.vectors(TERMS)
    for left_out in MANY:
        assert total(vector for name, vector in vectors.items() if name != left_out)[-1] != 0


def test_masks_of_two_rounds_have_nothing_in_common(ready):
    one, other = ready.vectors(TERMS, number=1), ready.vectors(TERMS, number=2)
    assert all(not np.any(one[name] == other[name]) for name in MANY)


def test_a_neighbour_is_who_chose_or_was_chosen(ready):
    for name in MANY:
        assert set(ready.states[name].peers) >= set(ready.states[name].chosen)
        for other in MANY:
            assert (other in ready.states[name].peers) == (name in ready.states[other].peers)
            if name != other and other in ready.states[name].peers:
                assert name in ready.states[other].chosen or other in ready.states[name].chosen
                assert ready.states[name].peers[other] == ready.states[other].peers[name]


# -- a coordinator that wants to choose -------------------------------------------------------------------------------


def test_a_chosen_site_that_is_not_shown_ends_it():
    made = Neighbours()
    hidden = made.states["c"].chosen[0]
    shown = [site for site in made.shown_to("c") if site != hidden] or ["a"]
    if hidden == "a":
        shown = [site for site in shown if site != "a"] or ["b"]
    with pytest.raises(SiteRefusal, match=f"the key of site '{hidden}' is not shown. This site chooses its neighbours"):
        introduce(made.parties["c"], made.states["c"], made.introduction("c", shown))


def test_the_first_site_must_see_all_and_every_site_the_first():
    made = Neighbours()
    with pytest.raises(SiteRefusal, match="the key of site 'b' is not shown"):
        introduce(made.parties["a"], made.states["a"], made.introduction("a", list("cdefgh")))
    state = replace(made.states["c"], chosen=["d"])
    with pytest.raises(SiteRefusal, match="the key of site 'a' is not shown"):
        introduce(made.parties["c"], state, made.introduction("c", ["d"]))


def test_neighbours_are_shown_once(ready):
    with pytest.raises(SiteRefusal, match="were shown before"):
        introduce(ready.parties["b"], ready.states["b"], ready.introduction("b"))


@pytest.mark.parametrize("shown", [["c", "b"], ["b", "b"], ["a", "x"], ["a", "c", "d"]])
def test_lists_out_of_order_or_with_strangers_or_oneself_are_refused(shown):
    made = Neighbours()
    message = made.introduction("c", ["a", "b"])
    message = Message("shares", {**message.fields, "sites": shown}, message.arrays)
    with pytest.raises(SiteRefusal, match="twice, out of order, or that are not others"):
        introduce(made.parties["c"], made.states["c"], message)


@pytest.mark.parametrize("sites", [None, "a", [1]])
def test_what_is_no_list_of_sites_is_refused(sites):
    made = Neighbours()
    with pytest.raises(WireError, match="must be a list of sites"):
        introduce(made.parties["c"], made.states["c"], Message("shares", {"sites": sites}))


def test_a_certificate_of_another_site_or_run_or_without_a_choice_is_refused():
    made, other = Neighbours(), Neighbours(run="other")
    swapped, chose = Neighbours(), Neighbours(choices=0)
    for certificate, words in (
        (other.certificates["b"], "one of another run"),
        (swapped.certificates["c"], "is not: "),
        (chose.certificates["b"], "does not say whom it chose"),
    ):
        made.certificates["b"] = certificate
        with pytest.raises(SiteRefusal, match=words):
            introduce(made.parties["a"], made.states["a"], made.introduction("a", list("bcdefgh")))


def test_who_is_hidden_from_a_site_that_it_chose_spoils_the_sum_and_learns_nothing():
    """The one who chose adds a mask that the other does not take away."""
    made = Neighbours()
    name, other = next(
        (name, other)
        for other in MANY[1:]
        for name in MANY[1:]
        if other in made.states[name].chosen and name not in made.states[other].chosen
    )
    made.introduce(**{other: [site for site in made.shown_to(other) if site != name]})
    assert name not in made.states[other].peers
    assert total(made.vectors(TERMS).values())[-1] != 0


# -- a round ----------------------------------------------------------------------------------------------------------


def test_a_sum_over_fewer_is_refused(ready):
    with pytest.raises(SiteRefusal, match="every sum is over all of them"):
        ready.ask("a", TERMS, present=MANY[:-1])


def test_a_round_is_answered_once(ready):
    ready.ask("a", TERMS, number=3)
    for number in (3, 2):
        with pytest.raises(SiteRefusal, match=f"round {number} was answered before"):
            ready.ask("a", TERMS, number=number)


def test_nothing_is_answered_before_neighbours_are_shown():
    made = Neighbours()
    message = Message("masked", {"round": 1, "present": list(MANY), "coding": {}})
    with pytest.raises(SiteRefusal, match="were not shown before"):
        mask_among_neighbours(made.parties["b"], made.states["b"], message, MOMENTS, FEATURES, None)


def test_the_key_of_tags_comes_sealed_from_the_first_site_and_once(ready):
    ready.letters = {name: letter.copy() for name, letter in ready.letters.items()}
    ready.letters["b"][20] ^= 1
    with pytest.raises(BrokenSecret):
        ready.ask("b", TERMS)
    ready.letters["c"], ready.letters["d"] = ready.letters["d"], ready.letters["c"]
    with pytest.raises(BrokenSecret):
        ready.ask("c", TERMS)
    with pytest.raises(WireError, match=LETTER):
        ready.ask("e", TERMS, letter=False)
    ready.ask("a", TERMS, letter=False)  # the first site drew it
    ready.ask("f", TERMS)
    ready.ask("f", TERMS, number=2, letter=False)
    assert ready.states["a"].tags == ready.states["f"].tags
    key = bytes.fromhex(ready.states["a"].tags["key"])
    assert all(key not in letter.tobytes() for letter in ready.letters.values())


def test_a_site_that_cannot_answer_sends_random_words(ready):
    one = ready.vectors({**TERMS, "d": None})
    assert total(one.values())[-1] != 0


# -- the sum comes back -----------------------------------------------------------------------------------------------


def returned(vector, sites=MANY):
    return Message("masked", {PREVIOUS: 1, SUMMED: list(sites)}, {PREVIOUS: vector})


def test_the_sum_that_comes_back_is_taken_by_its_tag(ready):
    summed = total(ready.vectors(TERMS).values())
    for name in MANY:
        _, found = take_sum(ready.parties[name], ready.states[name], returned(summed))
        assert found.arrays()["rows"] == sum(terms["rows"] for terms in TERMS.values())
    for change in (0, -2):
        altered = summed.copy()
        altered[change] ^= np.uint64(1)
        with pytest.raises(AlteredSum, match="not the sum of what the sites sent"):
            take_sum(ready.parties["b"], ready.states["b"], returned(altered))
    for altered in (np.append(2 * summed[:-1], np.uint64(0)), np.zeros_like(summed)):
        with pytest.raises(AlteredSum, match="not the sum of what the sites sent"):
            take_sum(ready.parties["b"], ready.states["b"], returned(altered))
    with pytest.raises(AlteredSum, match="not the sum of what the sites sent"):
        take_sum(ready.parties["b"], ready.states["b"], returned(summed, MANY[:-1]))
    with pytest.raises(AlteredSum, match="was not returned"):
        take_sum(ready.parties["b"], ready.states["b"], Message("masked", {}))


# -- allies of the coordinator ----------------------------------------------------------------------------------------


def context_of(ready, number=1):
    codings = {segment.name: list(segment.coding) for segment in segments()[:-2]}
    return ("study", "run", number, masks_are_for(MOMENTS, codings, MANY))


def without_allies(ready, vector, name, allies):
    """Take off the masks that a site's neighbours among the allies know."""
    found = vector.copy()
    known = {ally: ready.states[name].peers[ally] for ally in allies if ally in ready.states[name].peers}
    negative = np.zeros_like(found)
    add_pair_masks(negative, segments(), name, known, context_of(ready))
    form = segments()
    neighbours.add_into(found, negative, form, subtract=True)
    return found


def choosing(monkeypatch, table):
    monkeypatch.setattr("fedspca.masking.party.chosen", lambda names, own, count: table[own])


RING = {name: sorted([MANY[(k + 1) % 8], MANY[(k + 3) % 8]]) for k, name in enumerate(MANY)}


def test_allies_learn_the_sum_of_the_others_and_no_part_of_it(monkeypatch):
    """Among c, e, f, g and h the graph is connected; the allies a, b and d know all masks that they share."""
    choosing(monkeypatch, RING)
    ready = Neighbours().introduce()
    vectors, allies = ready.vectors(TERMS), ("a", "b", "d")
    honest = {name: without_allies(ready, vectors[name], name, allies) for name in MANY if name not in allies}
    names = sorted(honest)
    for group in range(1, 1 << len(names)):
        inside = [name for bit, name in enumerate(names) if group >> bit & 1]
        hidden = total(honest[name] for name in inside)[-1] != 0  # the last word is zero without masks
        assert hidden == (inside != names)


def test_a_site_whose_neighbours_are_all_allies_has_no_secret(monkeypatch):
    """What the bound is about: the chance that a site's own choice, and all who chose it, are allies."""
    choosing(monkeypatch, RING)
    ready = Neighbours().introduce()
    vector, allies = ready.vectors(TERMS)["e"], tuple(ready.states["e"].peers)
    bare = without_allies(ready, vector, "e", allies)
    assert np.allclose(decode_terms(bare, segments())["sums"], TERMS["e"]["sums"])


# -- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [None, np.zeros(2, np.uint8), np.zeros((1, 2), np.uint64), np.array([8], np.uint64)])
def test_a_choice_of_another_form_is_refused(places):
    arrays = {} if places is None else {"chosen": places}
    with pytest.raises(WireError, match="choice of neighbours"):
        choice_in(Message("certificate", {}, arrays), list(MANY))


@pytest.mark.parametrize("vector", [None, np.zeros(3, np.uint64), np.zeros((4, 1), np.uint64), np.zeros(4)])
def test_a_vector_of_another_form_is_refused(vector):
    with pytest.raises(WireError, match="'vector'"):
        check_masked(Message("masked", {}, {} if vector is None else {"vector": vector}), 4)
    check_masked(Message("masked", {}, {"vector": np.zeros(4, np.uint64)}), 4)
