"""The masking protocol among neighbours, between parties in this process, message by message."""

import numpy as np

from fedspca.letters.identity import Identity
from fedspca.letters.wire import Message
from fedspca.masking.aggregator import Scale
from fedspca.masking.fixed_point import add_into, layout
from fedspca.masking.messages import LETTER, LETTERS
from fedspca.masking.neighbours import choice_in, introduce, mask_among_neighbours, opened_certificate
from fedspca.masking.party import Party, announce_key
from fedspca.site.queries import QUERIES
from helpers.protocol import FEATURES, MOMENTS

MANY = tuple("abcdefgh")
PEOPLE = {name: Identity.new() for name in MANY}


def few_choices(monkeypatch, choices=2):
    """Let studies of few sites mask among neighbours."""
    for module in ("fedspca.door.masked", "fedspca.federation.secure"):
        monkeypatch.setattr(f"{module}.choices_for", lambda _, *, whole: choices if whole else 0)


class Neighbours:
    """Every party's state, and what the coordinator passes on."""

    def __init__(self, choices=2, run="run"):
        roster = {name: PEOPLE[name].public for name in MANY}
        self.parties = {
            name: Party(name, PEOPLE[name], roster, "study", run, 6, whole=True, choices=choices) for name in MANY
        }
        self.states, self.certificates = {}, {}
        for name, party in self.parties.items():
            self.states[name], told = announce_key(party)
            self.certificates[name] = told.arrays["certificate"]

    def shown_to(self, name):
        """Whose certificates an honest coordinator shows a site."""
        choices = {
            site: choice_in(opened_certificate(each.tobytes()), list(MANY)) for site, each in self.certificates.items()
        }
        around = {site for site in MANY if site in choices[name] or name in choices[site]}
        return sorted((set(MANY) if name == MANY[0] else around | {MANY[0]}) - {name})

    def introduction(self, name, shown=None):
        shown = self.shown_to(name) if shown is None else shown
        certificates = [self.certificates[site] for site in shown]
        fields = {"round": 1, "sites": shown, "lengths": [len(one) for one in certificates]}
        return Message("shares", fields, {"certificates": np.concatenate(certificates)})

    def introduce(self, **shown):
        for name in MANY:
            message = self.introduction(name, shown.get(name))
            self.states[name], reply = introduce(self.parties[name], self.states[name], message)
            if name == MANY[0]:
                self.letters = dict(zip(MANY, reply.arrays[LETTERS], strict=True))
        return self

    def question(self, name, number=1, present=MANY, letter=True):
        codings = {term: list(coding) for term, coding in Scale().codings(MOMENTS, len(MANY)).items()}
        arrays = {LETTER: self.letters[name]} if letter else {}
        return Message("masked", {"round": number, "present": list(present), "coding": codings}, arrays)

    def ask(self, name, terms, **about):
        self.states[name], reply = mask_among_neighbours(
            self.parties[name],
            self.states[name],
            self.question(name, **about),
            MOMENTS,
            FEATURES,
            lambda *_: terms[name],
        )
        return reply.arrays["vector"]

    def vectors(self, terms, **about):
        return {name: self.ask(name, terms, **about) for name in MANY}


def segments():
    return layout(QUERIES["moments"].shapes(FEATURES, MOMENTS), Scale().codings(MOMENTS, len(MANY)))


def total(vectors):
    """The sum of some vectors, as a coordinator adds them."""
    form = segments()
    found = np.zeros(form[-1].stop, np.uint64)
    for vector in vectors:
        add_into(found, vector, form)
    return found
