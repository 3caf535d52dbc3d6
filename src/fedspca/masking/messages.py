"""The kinds of messages of the masking protocol, for both sides, in the order in which they are sent.

``keys``: each site's key of this run, certified by its identity. ``shares``: the secrets of the first round, shared
among the sites. ``masked``: a question, answered under masks; the reply also shares the secrets of the next round.
``unmask``: which sites answered, so that the sites help to remove the masks from their sum.
``finish``: after the last question.

Among many sites (:mod:`fedspca.masking.neighbours`), ``shares`` brings each site the certificates of its neighbours,
and the first site replies with the ``letters`` that hold the key of tags. Each site finds its ``letter`` in its first
``masked`` message. There is no ``unmask``.

``masked`` and ``finish`` bring back to the sites the sum of the round before: the array ``previous``, its round and who
is in it. Every site checks the sum by its tag before it answers anything more.
"""

KEYS = "keys"
SHARES = "shares"
MASKED = "masked"
UNMASK = "unmask"
FINISH = "finish"

PREVIOUS = "previous"  # the sum of the round before, and its number
SUMMED = "summed"  # who is in it

LETTERS, LETTER = "letters", "letter"  # the key of tags, sealed for every site, and for one

# the arrays of a ``masked`` message that are about masks; the others are the question's own
PROTOCOL_ARRAYS = frozenset({"keys", "commitments", "shares", PREVIOUS, LETTER})
