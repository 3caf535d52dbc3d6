"""The cryptography of masking: what fits together gives the secret, and nothing else does."""

from itertools import combinations

import numpy as np
import pytest

from fedspca.masking import secret_sharing
from fedspca.masking.secret_sharing import (
    KEY,
    SEALED,
    SEED,
    BrokenSecret,
    agreed_key,
    derive,
    join,
    key_stream,
    new_seed,
    public_key,
    seal,
    split,
    unseal,
)


def test_a_seed_has_128_bits_and_is_never_the_same():
    seeds = {new_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert {len(seed) for seed in seeds} == {16} == {SEED}


def test_a_secret_yields_another_key_for_every_purpose():
    keys = [derive(b"s" * 16, *context) for context in ((), ("a",), ("b",), ("a", 1), ("a", "1"), (["a", 1],))]
    keys.append(derive(b"t" * 16, "a"))
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {32} == {KEY}
    assert derive(b"s" * 16, "a", 1) == keys[3]


def test_a_derived_key_is_hkdf_over_the_purpose_as_json():
    """A site that restarts as a newer version must derive the same keys from the seed that it kept."""
    from Crypto.Hash import SHA256
    from Crypto.Protocol.KDF import HKDF

    expected = HKDF(b"s" * 16, 32, b"", SHA256, context=b'["fedspca", "mask", 3]')
    assert derive(b"s" * 16, "mask", 3) == expected


def test_a_public_key_is_that_of_the_derived_private_key():
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    expected = X25519PrivateKey.from_private_bytes(derive(b"s" * 16, "x25519")).public_key()
    assert public_key(b"s" * 16) == expected.public_bytes_raw()


def test_two_owners_agree_on_a_key_and_a_third_does_not():
    mine, theirs, other = new_seed(), new_seed(), new_seed()
    agreed = agreed_key(mine, public_key(theirs), "mask", 3)
    assert agreed == agreed_key(theirs, public_key(mine), "mask", 3)
    assert agreed != agreed_key(theirs, public_key(mine), "mask", 4)
    assert agreed != agreed_key(other, public_key(mine), "mask", 3)
    assert agreed != agreed_key(mine, public_key(other), "mask", 3)
    assert len(agreed) == KEY
    assert public_key(mine) == public_key(mine) != public_key(theirs)


def test_a_point_of_small_order_is_refused():
    with pytest.raises(BrokenSecret, match="nothing secret can be agreed"):
        agreed_key(new_seed(), bytes(32), "mask")


def test_a_key_makes_one_stream_and_a_longer_one_begins_with_it():
    key = derive(b"k" * 16, "mask")
    long, short = key_stream(key, 1000), key_stream(key, 10)
    assert long.dtype == np.uint64
    assert len(long) == 1000
    assert np.array_equal(long[:10], short)
    assert not np.array_equal(key_stream(derive(b"k" * 16, "other"), 10), short)
    assert len(key_stream(key, 0)) == 0
    assert abs(np.unpackbits(long.view(np.uint8)).mean() - 0.5) < 0.01


def test_the_stream_is_that_of_chacha20_with_a_nonce_of_zeros():
    from Crypto.Cipher import ChaCha20

    key = derive(b"k" * 16, "mask")
    other = ChaCha20.new(key=key, nonce=bytes(8)).encrypt(bytes(800))
    assert key_stream(key, 100).tobytes() == other


def test_a_sealed_letter_is_opened_by_its_key_and_about_the_same_thing_only():
    key = derive(b"k" * 16, "seal")
    sealed = seal(key, bytes(3 * SEED), b"about")
    assert len(sealed) == SEALED
    assert unseal(key, sealed, b"about") == bytes(3 * SEED)
    assert seal(key, bytes(3 * SEED), b"about") != sealed  # a nonce is used once
    for bad in (
        (derive(b"l" * 16, "seal"), sealed, b"about"),
        (key, sealed, b"another thing"),
        (key, sealed[:-1] + bytes([sealed[-1] ^ 1]), b"about"),
        (key, bytes([sealed[0] ^ 1]) + sealed[1:], b"about"),
        (key, sealed[:12] + bytes([sealed[12] ^ 1]) + sealed[13:], b"about"),
    ):
        with pytest.raises(BrokenSecret, match="altered on its way, or is about another key"):
            unseal(*bad)


def test_nonces_come_from_the_operating_system(monkeypatch):
    asked = []
    monkeypatch.setattr(secret_sharing.secrets, "token_bytes", lambda size: asked.append(size) or bytes(size))
    seal(bytes(32), b"x", b"")
    assert asked == [12]


def test_any_that_are_enough_restore_a_seed_and_fewer_do_not():
    seed = new_seed()
    shares = split(seed, 3, 5)
    assert [len(share) for share in shares] == [SEED] * 5
    for chosen in combinations(range(5), 3):
        assert join({number: shares[number] for number in chosen}, 3) == seed
    assert join(dict(enumerate(shares)), 3) == seed
    with pytest.raises(BrokenSecret, match="2 shares, where 3 are needed"):
        join({0: shares[0], 4: shares[4]}, 3)
    assert join({0: shares[0], 1: shares[1], 2: shares[3]}, 3) != seed  # under another number
    assert join({0: shares[0], 1: shares[1]}, 2) != seed


def test_of_more_shares_than_needed_the_first_are_taken():
    seed = new_seed()
    shares = split(seed, 2, 4)
    assert join({0: shares[0], 1: shares[1], 3: bytes(SEED)}, 2) == seed
