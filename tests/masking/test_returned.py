"""The sum that comes back to a site under masks: what it takes, and what it refuses."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from fedspca.letters.wire import Message
from fedspca.masking.aggregator import unmasked
from fedspca.masking.fixed_point import add_into, segments_of
from fedspca.masking.messages import PREVIOUS, SUMMED
from fedspca.masking.party import (
    MaskingState,
    masks_are_for,
)
from fedspca.masking.returned import AlteredSum, take_sum, transcript
from fedspca.site.question import query_hash
from helpers.protocol import MOMENTS, NAMES, RUN, STUDY, Protocol, terms_of


@pytest.fixture
def ready():
    made = Protocol()
    made.share()
    return made


class TestTakeSum:
    """What a site takes for the sum of the round before."""

    @pytest.fixture
    def made(self, ready):
        ready.answers = ready.mask(MOMENTS, terms_of())
        ready.shares = ready.unmask(NAMES)
        return ready

    def message(self, made, change=None, **fields):
        """The message that brings the sum back, with a change to its numbers."""
        segments = segments_of(made.states["a"].held["form"])
        vector = np.zeros(segments[-1].stop, np.uint64)
        for answer in made.answers.values():
            add_into(vector, answer.arrays["vector"], segments)
        about = masks_are_for(MOMENTS, {s.name: list(s.coding) for s in segments[:-2]}, NAMES)
        unmasked(vector, segments, made.before, list(NAMES), made.shares, 3, (STUDY, RUN, 1, about))
        arrays = {PREVIOUS: vector if change is None else change(vector)}
        return Message("masked", {PREVIOUS: 1, SUMMED: list(NAMES), **fields}, arrays)

    def test_the_sum_is_taken_once(self, made):
        message = self.message(made)
        state, found = take_sum(made.parties["a"], made.states["a"], message)
        assert (found.round, found.query, found.question) == (1, "moments", query_hash(MOMENTS))
        assert found.sites == NAMES
        assert found.vector is not message.arrays[PREVIOUS]
        for name, array in found.arrays().items():
            assert np.allclose(array, sum(terms[name] for terms in terms_of().values()))
        assert state == replace(made.states["a"], held={**made.states["a"].held, "due": False})
        assert take_sum(made.parties["a"], state, message) == (state, None)

    def test_none_is_due_before_a_question(self):
        state = MaskingState("00")
        assert take_sum(Protocol().parties["a"], state, Message("masked", {})) == (state, None)

    def test_without_this_sites_help_there_is_none(self, ready):
        ready.mask(MOMENTS, terms_of())
        assert ready.states["a"].held["due"] is True
        state, found = take_sum(ready.parties["a"], ready.states["a"], Message("masked", {}))
        assert found is None
        assert state == replace(ready.states["a"], held={**ready.states["a"].held, "due": False})

    def test_where_it_helped_the_sum_must_come_back(self, made):
        for fields in ({}, {PREVIOUS: 2}):
            with pytest.raises(AlteredSum, match=r"the sum of round 1 was not returned to the sites\.$"):
                take_sum(made.parties["a"], made.states["a"], Message("masked", fields))

    @pytest.mark.parametrize(
        "change", [lambda v: v[:-1], lambda v: v.view(np.float64), lambda v: v[:, None], lambda v: v.view(np.int64)]
    )
    def test_in_the_form_in_which_it_was_sent(self, made, change):
        with pytest.raises(AlteredSum, match=r"the sum of round 1 has another form than was sent\.$"):
            take_sum(made.parties["a"], made.states["a"], self.message(made, change))
        without = Message("masked", {PREVIOUS: 1, SUMMED: list(NAMES)})
        with pytest.raises(AlteredSum, match="another form"):
            take_sum(made.parties["a"], made.states["a"], without)

    @pytest.mark.parametrize("place", [0, 1, -2])
    def test_bit_by_bit(self, made, place):
        def change(vector):
            vector[place] ^= np.uint64(1)
            return vector

        words = r"not the sum of what the sites sent \(round 1, 'moments'\)\. Nothing more is answered in this run\.$"
        with pytest.raises(AlteredSum, match=words):
            take_sum(made.parties["a"], made.states["a"], self.message(made, change))

    def test_of_the_sites_that_are_in_it(self, made):
        with pytest.raises(AlteredSum, match="not the sum of what the sites sent"):
            take_sum(made.parties["a"], made.states["a"], self.message(made, **{SUMMED: ["a", "b", "c"]}))
        held = {**made.states["a"].held, "present": ["a", "b", "c"]}  # a tag that fits, of one who was not asked
        with pytest.raises(AlteredSum, match="not the sum of what the sites sent"):
            take_sum(made.parties["a"], replace(made.states["a"], held=held), self.message(made))

    def test_numbers_that_did_not_fit_are_no_sum(self, made):
        def change(vector):
            vector[:] = 5  # whatever stands there, and no tag that would fit
            return vector

        state, found = take_sum(made.parties["a"], made.states["a"], self.message(made, change))
        assert found is None
        assert state == replace(made.states["a"], held={**made.states["a"].held, "due": False})

    def test_zeros_beside_the_last_word_say_nothing(self, made):
        def change(vector):
            vector[:] = 0
            vector[-1] = 1
            return vector

        assert take_sum(made.parties["a"], made.states["a"], self.message(made, change))[1] is None


def test_a_transcript_seals_every_round():
    vector = np.arange(3, dtype=np.uint64)
    expected = hashlib.sha256(b"before" + b'[1, "q", ["a", "b"]]' + vector.astype("<u8").tobytes()).digest()
    assert transcript(b"before", 1, "q", ("a", "b"), vector) == expected
