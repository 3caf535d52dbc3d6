"""The cryptography of masking: key agreement, key streams and sealed letters from a library, and shared secrets.

X25519 and HKDF-SHA256 agree on keys, ChaCha20 stretches a key into a mask, ChaCha20-Poly1305 seals what one site sends
to another through the coordinator, and Shamir's scheme splits a secret so that only enough sites together restore it.
Every secret is a seed of 128 bits from the operating system, as strong as the curve.
"""

import json
import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from fedspca.masking.fixed_point import Words
from fedspca.masking.shamir import secret_of, shares_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

SEED = 16
KEY = 32
SEALED = 12 + 3 * SEED + 16  # a nonce, a share of each of two seeds, a part of the round's key of tags, a seal


class BrokenSecret(ValueError):
    """A key, share or sealed letter that is not what its owner made."""


def new_seed() -> bytes:
    """Draw a secret from the operating system."""
    return secrets.token_bytes(SEED)


def derive(secret: bytes, *context: object) -> bytes:
    """Return the key that a secret yields for one purpose; for any other purpose it yields an unrelated one."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(hashes.SHA256(), KEY, salt=None, info=json.dumps(["fedspca", *context]).encode()).derive(secret)


def public_key(seed: bytes) -> bytes:
    """Return the X25519 public key of the private key that a seed yields."""
    return _private(seed).public_key().public_bytes_raw()


def agreed_key(seed: bytes, public: bytes, *context: object) -> bytes:
    """Return the key on which the owner of a seed and the owner of a public key agree for one purpose."""
    (shared,) = shared_secrets(seed, [public])
    return derive(shared, *context)


def shared_secrets(seed: bytes, others: Iterable[bytes]) -> list[bytes]:
    """Return what the owner of a seed shares with the owner of each public key; keys are derived from it."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    private = _private(seed)
    try:
        return [private.exchange(X25519PublicKey.from_public_bytes(public)) for public in others]
    except ValueError:  # a point of small order, which gives no secret
        raise BrokenSecret("a public key with which nothing secret can be agreed") from None


def _private(seed: bytes) -> "X25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(derive(seed, "x25519"))


def key_stream(key: bytes, length: int) -> Words:
    """Return ``length`` words of the ChaCha20 key stream: a mask. Each key is used once, so the nonce is zero."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = np.zeros(length, np.uint64)
    if length:
        view = stream.data.cast("B")
        Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update_into(view, view)
    return stream


def seal(key: bytes, secret: bytes, about: bytes) -> bytes:
    """Encrypt a secret, bound to what it is about."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    nonce = secrets.token_bytes(12)
    return nonce + ChaCha20Poly1305(key).encrypt(nonce, secret, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """Return the secret, or raise :class:`BrokenSecret` if it or what it is about was altered."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(sealed[:12], sealed[12:], about)
    except InvalidTag:
        raise BrokenSecret("a sealed letter was altered on its way, or is about another key") from None


def split(seed: bytes, threshold: int, parts: int) -> list[bytes]:
    """Return shares of a seed, of which any ``threshold`` restore it and fewer reveal nothing."""
    return shares_of([seed], threshold, parts)[0]


def join(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Return the seed that these shares restore. Shares are numbered from 0."""
    chosen = sorted(shares.items())[:threshold]
    if len(chosen) < threshold:
        raise BrokenSecret(f"{len(chosen)} shares, where {threshold} are needed")
    return secret_of(dict(chosen))
