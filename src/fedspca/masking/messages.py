"""The words of the protocol, for both sides: the kinds of messages, in the order in which they travel.

``keys``: each site's key of this run, certified by its identity. ``shares``: the secrets of the first round, shared
among the sites. ``masked``: a question, answered under masks; the reply also shares the secrets of the next round.
``unmask``: who answered, so that the others help to take the masks off their sum.
"""

KEYS = "keys"
SHARES = "shares"
MASKED = "masked"
UNMASK = "unmask"

# the arrays of a ``masked`` message that are about masks; the others are the question's own
PROTOCOL_ARRAYS = frozenset({"keys", "commitments", "shares"})
