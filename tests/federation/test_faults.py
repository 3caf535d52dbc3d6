"""The protocol of letters and masks under every order of faults: a model of what must hold, checked on the real parts.

The machine draws which letters and replies are lost, when a site restarts, when the coordinator is killed and when
somebody sends an old letter again. Whatever the order: the sums are those of the rows, a site gives one answer to one
question and never a second, and its log is unbroken. ``make model EXAMPLES=500`` tries more.
"""

import os
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from contracts.federation import make_sites, orthonormal, pooled
from fedspca import Query
from fedspca.federation import roster
from fedspca.federation.journal import Journal
from fedspca.federation.resumable import ResumableFederation
from fedspca.letters.identity import signed_payload
from fedspca.letters.wire import decode
from fedspca.linalg.operators import Frame
from fedspca.solvers.asking import frame_arrays
from helpers.restarting import Restarting, Stopped

SIZES = (20, 11, 30)
MANY = int(os.environ.get("FEDSPCA_MODEL_EXAMPLES", "5"))
SITES = tuple(f"clinic-{k}" for k in range(len(SIZES)))
WHAT = ("letter lost", "reply lost", "sent twice", "old letter", "coordinator killed")


class Letters(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.place = tempfile.TemporaryDirectory()
        home = Path(self.place.name)
        self.sites = Faulty(home / "sites", SIZES)
        self.journal, self.asked = home / "journal", 0
        x = pooled(make_sites(SIZES))
        frame = Frame(x.mean(axis=0), x.std(axis=0, ddof=1), np.zeros((x.shape[1], 0)))
        self.rows, self.about = (x - frame.mean) / frame.scale, frame_arrays(frame)
        self.mean, self.plain = frame.mean, x
        self.coordinator = self.sites.federation(self.journal)

    def teardown(self):
        if hasattr(self, "place"):
            self.place.cleanup()

    def question(self, number):
        """A question of the study, and the sum that it must have."""
        if number == 0:
            return Query("moments"), "sums", self.plain.sum(axis=0)
        if number == 1:
            return Query("deviations", {"mean": self.mean}), "squares", ((self.plain - self.mean) ** 2).sum(axis=0)
        directions = orthonormal(seed=number)
        query = Query("gram_product", {**self.about, "directions": directions}, {"precision": "float64"})
        return query, "product", self.rows.T @ (self.rows @ directions)

    @precondition(lambda self: len(self.sites.faults) < 4)
    @rule(what=st.sampled_from(WHAT), site=st.sampled_from(SITES), after=st.integers(0, 4))
    def trouble_ahead(self, what, site, after):
        self.sites.faults.append((what, site, after))

    @rule()
    def ask(self):
        while True:
            try:
                # all questions so far, as a solver that was resumed asks them: those that were kept are not asked again
                for number in range(self.asked + 1):
                    query, name, expected = self.question(number)
                    found = self.coordinator.sum(query)[name]
                    assert np.allclose(found, expected, atol=1e-6), number
                break
            except Stopped:
                self.resume()
        self.asked += 1
        self.resume()

    def resume(self):
        """Another process leads the run, and knows what is on the disk."""
        self.coordinator = self.sites.federation(self.journal)

    @invariant()
    def one_answer_to_a_question(self):
        """Two masked vectors of one round would differ by what the masks hide."""
        if hasattr(self, "sites"):
            assert all(len(replies) == 1 for replies in self.sites.answers.values())

    @invariant()
    def logs_are_unbroken(self):
        if getattr(self, "asked", 0):
            assert all(self.sites.endpoint(name).audit.verify() for name in SITES)


class Faulty(Restarting):
    """Sites to which letters may not come, and the coordinator with them; what they answered is kept for the check."""

    def __init__(self, folder, sizes):
        super().__init__(folder, sizes)
        self.faults, self.answers, self.letters = [], {}, {name: [] for name in self.sites}

    def due(self, name):
        """What happens to the next letter to a site."""
        now = [what for what, site, after in self.faults if site == name and after == 0]
        self.faults = [
            (what, site, after - (site == name)) for what, site, after in self.faults if site != name or after > 0
        ]
        return now

    def exchange(self, letters, deadline):
        replies = {}
        for name, letter in sorted(letters.items()):
            now = self.due(name)
            if "coordinator killed" in now:
                raise Stopped
            if "old letter" in now and self.letters[name]:
                self.handed(name, self.letters[name][len(self.letters[name]) // 2])
            if "letter lost" in now:
                continue
            reply = self.handed(name, letter)
            if "sent twice" in now:
                assert self.handed(name, letter) == reply
            if "reply lost" not in now:
                replies[name] = reply
        return replies

    def handed(self, name, letter):
        reply = self.endpoint(name).handle(letter)
        said = decode(signed_payload(reply, self.identities[name].public, name))
        asked = decode(signed_payload(letter, self.coordinator.public, "coordinator"))
        self.letters[name].append(letter)
        if said.kind != "refused":
            key = (name, asked.kind, asked.fields.get("run"), asked.fields.get("round"))
            self.answers.setdefault(key, set()).add(reply)
        return reply


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(roster, "PAUSE", 0.0)


class TestLetters(Letters.TestCase):
    settings = settings(
        max_examples=MANY,
        stateful_step_count=8,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


def test_the_machine_notices_a_site_that_answers_a_round_twice(tmp_path):
    """The check itself is checked: a site that forgets what it answered."""
    sites = Faulty(tmp_path / "sites", SIZES)
    ResumableFederation(sites.federation(), Journal(tmp_path / "journal", "x")).sum(Query("moments"))
    name = next(iter(sites.answers))[0]
    for state in (tmp_path / "sites" / name).glob("*/state"):
        state.unlink()
    for letter in list(sites.letters[name]):
        sites.handed(name, letter)
    assert max(len(replies) for replies in sites.answers.values()) > 1
