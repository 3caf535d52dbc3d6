"""The masking protocol between a few parties in this process, message by message and without any channel."""

import numpy as np

from fedspca.letters.identity import Identity
from fedspca.letters.wire import Message
from fedspca.masking.aggregator import Scale, collected, stacked, unmasked
from fedspca.masking.fixed_point import add_into, decode_terms, layout
from fedspca.masking.party import Party, announce_key, mask_terms, masks_are_for, share, unmask
from fedspca.site.queries import QUERIES
from fedspca.site.question import Query

NAMES = ("a", "b", "c", "d")
FEATURES = 3
STUDY, RUN = "study", "run"
IDENTITIES = {name: Identity.new() for name in (*NAMES, "other")}


class Protocol:
    """Every party's state, and what the coordinator holds."""

    def __init__(self, names=NAMES, threshold=3, **settings):
        roster = {name: IDENTITIES[name].public for name in names}
        self.names, self.threshold = names, threshold
        self.parties = {n: Party(n, IDENTITIES[n], roster, STUDY, RUN, threshold, **settings) for n in names}
        self.states, self.asked, self.certificates = {}, {name: {} for name in names}, {}
        for name, party in self.parties.items():
            self.states[name], told = announce_key(party)
            self.certificates[name] = told.arrays["certificate"]

    def introduction(self, number=1, names=None, **fields):
        """The message that brings everyone's keys."""
        names = list(self.names if names is None else names)
        certificates = [self.certificates[name] for name in names]
        about = {"round": number, "sites": names, "lengths": [len(one) for one in certificates], **fields}
        return Message("shares", about, {"certificates": np.concatenate(certificates)})

    def share(self, number=1, names=None):
        names = tuple(self.names if names is None else names)
        told = {}
        for name in names:
            self.states[name], told[name] = share(
                self.parties[name], self.states[name], self.introduction(number, names)
            )
        self.ready = collected(told, names)
        return told

    def question(self, name, query, number=1, codings=None, **fields):
        """The message that asks one party."""
        ready = self.ready
        column = ready.recipients.index(name)
        arrays = {
            "keys": stacked(ready.keys[site] for site in ready.sites),
            "commitments": stacked(ready.commitments[site] for site in ready.sites),
            "shares": np.stack([ready.letters[sender][column] for sender in ready.sites]),
        }
        codings = codings or {term: list(coding) for term, coding in Scale().codings(query, len(self.names)).items()}
        about = {"round": number, "present": list(ready.sites), "coding": codings, **fields}
        return Message("masked", about, arrays)

    def mask(self, query, terms, number=1, lost=()):
        """Every party's masked terms; the lost ones' do not arrive."""
        answers = {}
        self.before = self.ready
        for name in self.ready.sites:
            message = self.question(name, query, number)
            state, reply = mask_terms(
                self.parties[name], self.states[name], message, query, FEATURES, lambda *_, name=name: terms[name]
            )
            self.states[name] = state
            if name not in lost:
                answers[name] = reply
        return answers

    def unmask(self, survivors, number=1, helpers=None):
        message = Message("unmask", {"round": number, "survivors": sorted(survivors)})
        shares = {}
        for name in sorted(survivors) if helpers is None else helpers:
            self.states[name], self.asked[name], reply = unmask(
                self.parties[name], self.states[name], message, self.asked[name]
            )
            shares[name] = reply.arrays["shares"]
        return shares

    def total(self, query, answers, shares, number=1):
        """The sum of those who answered, without masks."""
        codings = Scale().codings(query, len(self.names))
        segments = layout(QUERIES[query.name].shapes(FEATURES, query), codings)
        total = np.zeros(segments[-1].stop, np.uint64)
        for reply in answers.values():
            add_into(total, reply.arrays["vector"], segments)
        about = masks_are_for(query, {name: list(one) for name, one in codings.items()}, self.before.sites)
        context = (STUDY, RUN, number, about)
        found = unmasked(total, segments, self.before, sorted(answers), shares, self.threshold, context)
        return decode_terms(found, segments)


MOMENTS = Query("moments")


def terms_of(names=NAMES, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for size, name in enumerate(names, 2):
        counts = np.full(FEATURES, float(size))
        found[name] = {"rows": np.array(float(size)), "counts": counts, "sums": rng.standard_normal(FEATURES)}
    return found
