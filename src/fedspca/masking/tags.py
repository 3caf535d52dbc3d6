"""Linear tags, by which sites detect that a returned sum is not the sum of what they sent.

The contract
------------
In a round all sites hold the same secret key, and the coordinator does not know it. The key yields a weight κ_j for
each integer x_j of the vector, and an offset β_i for each site i. Beside its vector x, site i sends, under the same
masks,

    t_i = Σ_j κ_j x_j + β_i   modulo 2ᵐ,   m = 64 (w + 2),

where w is the number of words of the widest integer. Tags are masked and added like other integers, modulo 2ᵐ, with no
limit on the number of sites. A sum X over the sites I comes back with the sum T of their tags, and it fits if
T = Σ_j κ_j X_j + Σ_{i in I} β_i.

The bound
---------
Anyone without the key who returns another sum, another tag or other sites passes the check with probability at most
2⁻¹²⁹, unless HKDF-SHA256 or ChaCha20 is broken. The offsets are uniform, so T reveals nothing about the weights.
An altered X differs in some place by an integer D ≠ 0 with |D| < 2^(64 w). The highest power of two that can
divide D is 2^(64 w − 1). Then κ_j D takes each of its values modulo 2ᵐ with probability 2^(64 w − 1 − m) = 2⁻¹²⁹ at
most. Other sites I change the sum of the offsets, which is uniform over 2ᵐ values.

Among many sites (:mod:`fedspca.masking.neighbours`) sums are over all sites or none, and only the first site adds an
offset. Tags are under masks, so all that is seen is T with one uniform offset, and the bound is the same.

The two additional words replace a prime modulus. With a known prime, X could be altered by a multiple of it. A secret
prime would have to be found by every site in every round. The offsets are needed: without them twice the sum would fit
twice the tag, and zero would fit zero.

Anyone with the key can make a tag for any sum. So a site that colludes with the coordinator lets it alter the sums.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fedspca.masking.fixed_point import Segment, Words
from fedspca.masking.secret_sharing import derive, key_stream

BLOCK = 1 << 14  # products of two limbs are below 2³², so sums of this many are exact in double precision
LIMB = 16
PER_WORD = 64 // LIMB


def stamp(vector: Words, segments: list[Segment], key: bytes, site: str | None) -> None:
    """Write a site's tag of its own integers into its place in the vector; without an offset if ``site`` is None."""
    *_, tag, _ = segments
    words = tag.coding.words
    beta = 0 if site is None else offset(key, site, words)
    value = (weighted(vector, segments, key) + beta) % (1 << 64 * words)
    vector[tag.start : tag.stop] = np.frombuffer(value.to_bytes(8 * words, "little"), "<u8")


def fits(vector: Words, segments: list[Segment], key: bytes, sites: Iterable[str]) -> bool:
    """Return whether a vector of sums bears the tag of the sum over these sites."""
    *_, tag, _ = segments
    words = tag.coding.words
    expected = weighted(vector, segments, key) + sum(offset(key, site, words) for site in sites)
    found = int.from_bytes(vector[tag.start : tag.stop].astype("<u8").tobytes(), "little")
    return (expected - found) % (1 << 64 * words) == 0


def offset(key: bytes, site: str, words: int) -> int:
    """Return β, which a site adds to its tag: so tags show who is in the sum, and reveal nothing about the weights."""
    return int.from_bytes(key_stream(derive(key, "offset", site), words).astype("<u8").tobytes(), "little")


def weighted(vector: Words, segments: list[Segment], key: bytes) -> int:
    """Return Σ κ_j x_j over the signed integers of all terms, not reduced."""
    *terms, tag, _ = segments
    total = 0
    for segment in terms:
        values = vector[segment.start : segment.stop].reshape(segment.coding.words, -1)
        for first in range(0, values.shape[1], BLOCK):
            part = values[:, first : first + BLOCK]
            weights = key_stream(derive(key, "weights", segment.name, first), tag.coding.words * part.shape[1])
            total += _inner(weights.reshape(part.shape[1], -1), part)
    return total


def _inner(weights: Words, values: Words) -> int:
    """Return the inner product of weights (a row of words each) and signed integers (a column of words each).

    Both are cut into limbs of 16 bits, and one exact matrix product in double precision multiplies all limbs of one
    with all limbs of the other. If the highest bit of an integer is set, 2^(64 w) is subtracted from its unsigned
    value.
    """
    signs = (values[-1:] >> np.uint64(63)).astype(np.float64)
    products = np.vstack([_limbs(values.T).T, -signs]) @ _limbs(weights)
    return sum(int(product) << LIMB * sum(place) for place, product in np.ndenumerate(products))


def _limbs(words: Words) -> NDArray[np.float64]:
    """Return each row of words as a row of limbs, the lowest first."""
    plain = np.ascontiguousarray(words).astype("<u8", copy=False)
    return plain.view("<u2").reshape(len(words), PER_WORD * words.shape[1]).astype(np.float64)
