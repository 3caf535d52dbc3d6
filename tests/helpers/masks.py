"""Secure federations over a channel that loses sites."""

import numpy as np

from contracts.federation import D
from fedspca import Query
from fedspca.federation.conversation import Conversation
from fedspca.federation.secure import SecureFederation, secure_federation
from fedspca.letters.identity import split_letter
from fedspca.letters.wire import decode
from fedspca.linalg.operators import Frame
from fedspca.solvers.asking import frame_arrays


class Unreliable:
    """A channel that loses sites before a given kind of letter, and keeps a transcript of every letter."""

    def __init__(self, inner, lost=None, after=0):
        self.inner, self.lost, self.after = inner, lost or {}, after
        self.gone, self.letters, self.received = set(), [], []

    @property
    def sites(self):
        return self.inner.sites

    def exchange(self, letters, deadline):
        kinds = {site: decode(split_letter(letter)[1]).kind for site, letter in letters.items()}
        for site, kind in kinds.items():
            message = decode(split_letter(letters[site])[1])
            if message.fields.get("round", 0) > self.after and self.lost.get(site) == kind:
                self.gone.add(site)
        here = {site: letter for site, letter in letters.items() if site not in self.gone}
        replies = self.inner.exchange(here, deadline)
        self.letters += [*here.values(), *replies.values()]
        self.received += list(replies.items())
        return replies

    def replies(self, kind):
        opened = [(site, decode(split_letter(letter)[1])) for site, letter in self.received]
        return [(site, message) for site, message in opened if message.kind == kind]


def watched(sites, lost=None, after=0, on_dropout="continue", kind=SecureFederation, **settings):
    """A secure federation over a channel that loses sites."""
    federation = secure_federation(sites, on_dropout=on_dropout, **settings)
    conversation = federation._conversation
    channel = Unreliable(conversation._channel, lost, after)
    inside = Conversation(channel, conversation._identity, conversation.agreement, conversation.run)
    return kind(inside), channel


def step(sites, iteration=0, r=2):
    """A question that a study goes on asking when a site is lost."""
    start = np.linalg.qr(np.random.default_rng(5).standard_normal((D, r)))[0]
    arrays = {"z": start}
    if iteration == 0:
        arrays |= {**frame_arrays(Frame(np.zeros(D), np.ones(D), np.zeros((D, 0)))), "start": start}
    return Query("faspca_step", arrays, {"iteration": iteration, "rho": 50.0, "seed": 1, "deflation": "orthogonal"})
