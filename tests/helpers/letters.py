"""Sites behind doors in this process, and a channel on which things go wrong."""

import secrets

from fedspca.door.agreement import Agreement
from fedspca.door.endpoint import Endpoint
from fedspca.door.store import MemoryStore
from fedspca.federation.base import check_same_features
from fedspca.federation.channel import LocalChannel
from fedspca.federation.conversation import Conversation
from fedspca.letters.identity import Identity

COORDINATOR = Identity.new()
KEYS = [Identity.new() for _ in range(8)]


def agreement_for(sites, **terms):
    features = check_same_features({site.name: site.feature_names for site in sites})
    keys = {site.name: key.public for site, key in zip(sites, KEYS, strict=False)}
    given = {"fit": {"components": 1}, "masked": False, "min_sites": 1, "max_rounds": 5000, "deadline": 5.0, **terms}
    return Agreement("trial", COORDINATOR.public, keys, features, **given)


def doors(sites, agreement=None):
    found = {}
    for site, key in zip(sites, KEYS, strict=False):
        store = MemoryStore()
        if agreement is not None:
            store.propose(agreement)
        found[site.name] = Endpoint(site, key, COORDINATOR.public, store)
    return found


def conversation_with(sites, channel=None, run=None, **terms):
    agreement = agreement_for(sites, **terms)
    channel = (channel or LocalChannel)(doors(sites, agreement))
    return Conversation(channel, COORDINATOR, agreement, run or secrets.token_hex(16))


class Troubled(LocalChannel):
    """A channel that does to letters what ``trouble(count, site, letter, reply)`` says; None loses the reply."""

    def __init__(self, endpoints, trouble=lambda count, site, letter, reply: reply):
        super().__init__(endpoints)
        self.trouble, self.count = trouble, 0

    def exchange(self, letters, deadline):
        self.count += 1
        answers = {}
        for site, letter in letters.items():
            reply = self.trouble(self.count, site, letter, self.endpoints[site].handle(letter))
            if reply is not None:
                answers[site] = reply
        return answers
