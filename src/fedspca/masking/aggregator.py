"""The coordinator's part of secure aggregation: how terms become integers, and how the masks come off their sum.

See :mod:`fedspca.masking.messages` for the steps. Nothing here sends anything: these are functions of what arrived.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.letters.wire import Message, WireError
from fedspca.masking.coding import BOUNDED, base_of, codings
from fedspca.masking.fixed_point import Coding, Segment, Words, add_into
from fedspca.masking.messages import KEYS, MASKED
from fedspca.masking.party import own_key, pair_key, rows_of_bytes
from fedspca.masking.secret_sharing import (
    KEY,
    SEALED,
    BrokenSecret,
    derive,
    join,
    key_stream,
    public_key,
    shared_secrets,
)
from fedspca.site.queries import QUERIES
from fedspca.site.question import Query

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]


class RoundSecrets(NamedTuple):
    """What the sites shared for a round: who they are, their keys and commitments, and sealed letters to each other."""

    sites: tuple[str, ...]
    keys: dict[str, bytes]
    commitments: dict[str, bytes]
    letters: dict[str, Bytes]  # by sender: one row for each of `recipients`
    recipients: tuple[str, ...]


def collected(messages: Mapping[str, Message], recipients: tuple[str, ...]) -> RoundSecrets:
    """Return the secrets that sites shared in their replies."""
    sites = tuple(sorted(messages))
    return RoundSecrets(
        sites,
        {site: messages[site].arrays["key"].tobytes() for site in sites},
        {site: messages[site].arrays["commitment"].tobytes() for site in sites},
        {site: messages[site].arrays["shares"] for site in sites},
        recipients,
    )


def unmasked(
    total: Words,
    segments: list[Segment],
    ready: RoundSecrets,
    survivors: list[str],
    shares: Mapping[str, Bytes],
    threshold: int,
    context: tuple[object, ...],
) -> Words:
    """Take the masks off the sum of the sites that answered.

    Parameters
    ----------
    total : ndarray
        The sum of the masked vectors of ``survivors``. It is changed in place.
    segments : list of Segment
        The position of each term in the vector.
    ready : RoundSecrets
        What the sites shared before the round.
    survivors : list of str
        The sites that answered.
    shares : mapping of str to ndarray
        For each site that helps to unmask, its share of the secret of every site of the round.
    threshold : int
        How many shares restore a secret.
    context : tuple
        What the masks are bound to.
    """
    for row, site in enumerate(ready.sites):
        told = {ready.recipients.index(helper): rows[row].tobytes() for helper, rows in shares.items()}
        seed = join(told, threshold)
        if site in survivors:
            if derive(seed, "commitment") != ready.commitments[site]:
                raise BrokenSecret(f"The shares of the seed of site {site!r} do not fit together.")
            add_into(total, key_stream(own_key(seed, context), len(total)), segments, subtract=True)
            continue
        if public_key(seed) != ready.keys[site]:
            raise BrokenSecret(f"The shares of the key of site {site!r} do not fit together.")
        shared = shared_secrets(seed, (ready.keys[other] for other in survivors))
        for other, secret in zip(
            survivors, shared, strict=True
        ):  # their vectors contain a mask that the lost site did not subtract
            mask = key_stream(pair_key(secret, site, other, context), len(total))
            add_into(total, mask, segments, subtract=other < site)
    return total


COUNTED = {"moments": "rows", "weighted_moments": "used"}  # the question that counts rows, and where the count is


class Scale:
    """How terms become integers, given the sums so far: by a bound where one is known, else with many words."""

    def __init__(self, arrays: Mapping[str, Array] | None = None) -> None:
        self.arrays: dict[str, Array] = dict(arrays or {})  # number of rows, and sums of squares about a mean

    def learn(self, query: Query, sums: Mapping[str, Array]) -> None:
        """Remember what bounds later sums."""
        if query.name in COUNTED:  # summed over the folds, if there are any
            self.arrays["rows"] = np.sum(sums[COUNTED[query.name]], keepdims=True).reshape(1)
        elif query.name in {"deviations", "residuals"} and "rows" in self.arrays:
            squares = np.atleast_2d(sums["squares"]).sum(axis=0)
            self.arrays |= {"squares": squares, "mean": query.arrays["mean"]}

    def codings(self, query: Query, sites: int) -> dict[str, Coding]:
        """Return the coding of each term of a question's answer."""
        trace = self._trace(query) if BOUNDED & set(QUERIES[query.name].terms) else None
        return codings(query, None if trace is None else base_of(trace, sites))

    def _trace(self, query: Query) -> float | None:
        """Bound tr(S) in the frame of the question by Σ(x − m)² ≤ 2Σ(x − μ)² + 2n(μ − m)²."""
        if "squares" not in self.arrays or "mean" not in query.arrays:
            return None
        squares = self.arrays["squares"] + self.arrays["rows"] * (self.arrays["mean"] - query.arrays["mean"]) ** 2
        trace = 2.01 * float(np.sum(squares / query.arrays["scale"] ** 2))
        return trace if np.isfinite(trace) and trace > 0 else None


def check_reply(kind: str, message: Message, sites: int, length: int) -> None:
    """Raise :class:`WireError` unless a reply has the form that the protocol gives to its kind."""
    if kind == KEYS:
        _check_vector(message, "certificate", np.uint8)
        return
    rows_of_bytes(message, "key", KEY)
    rows_of_bytes(message, "commitment", KEY)
    rows_of_bytes(message, "shares", SEALED, sites)
    if kind == MASKED:
        _check_vector(message, "vector", np.uint64, length)


def _check_vector(message: Message, name: str, dtype: type, length: int | None = None) -> None:
    array = message.arrays.get(name)
    if array is None or array.dtype != dtype or array.ndim != 1 or len(array) != (length or len(array)):
        raise WireError(f"A {message.kind!r} message without its array {name!r}, or with one of another length.")


def stacked(parts: Iterable[bytes]) -> Bytes:
    """Return pieces of the same length as the rows of one array."""
    return np.stack([np.frombuffer(part, np.uint8) for part in parts])
