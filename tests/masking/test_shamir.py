"""Shared secrets: the same shares as those of pycryptodome, whose field this is."""

import secrets
from itertools import combinations

import pytest
from Crypto.Protocol.SecretSharing import Shamir
from hypothesis import given
from hypothesis import strategies as st

from fedspca.masking import shamir
from fedspca.masking.shamir import secret_of, shares_of

ELEMENTS = st.integers(1, (1 << 128) - 1)


@pytest.mark.parametrize(("threshold", "parts"), [(2, 3), (3, 3), (5, 9), (67, 100), (2, 300)])
def test_shares_are_those_of_the_reference(threshold, parts):
    secret = secrets.token_bytes(16)
    chosen = sorted(secrets.SystemRandom().sample(range(parts), threshold))
    [own], theirs = shares_of([secret], threshold, parts), Shamir.split(threshold, parts, secret, ssss=False)
    assert len(own) == parts
    assert secret_of({number: own[number] for number in chosen}) == secret
    assert secret_of({number: theirs[number][1] for number in chosen}) == secret
    assert Shamir.combine([(number + 1, own[number]) for number in chosen], ssss=False) == secret


def test_every_group_restores_and_fewer_do_not():
    secret = secrets.token_bytes(16)
    _, shares = shares_of([bytes(16), secret], 3, 5)
    for group in combinations(range(5), 3):
        assert secret_of({number: shares[number] for number in group}) == secret
    for group in combinations(range(5), 2):
        assert secret_of({number: shares[number] for number in group}) != secret


def test_fewer_shares_fit_every_secret_alike():
    """With one share too few there is, for any other secret, a last share that would restore it."""
    [shares], other = shares_of([secrets.token_bytes(16)], 3, 3), secrets.token_bytes(16)
    zero = {0: shares[0], 1: shares[1], 2: bytes(16)}
    missing = int.from_bytes(other) ^ int.from_bytes(secret_of(zero))
    high, low = (int(word) for word in shamir._weights((0, 1, 2))[:, 2])
    last = shamir._product(missing, shamir._inverse(high << 64 | low))
    assert secret_of({**zero, 2: last.to_bytes(16)}) == other


def test_shares_are_never_the_same():
    secret = bytes(16)
    assert len({share for _ in range(50) for share in shares_of([secret], 2, 2)[0]}) == 100


@given(ELEMENTS, ELEMENTS)
def test_the_field(a, b):
    assert shamir._product(a, shamir._inverse(a)) == 1
    assert shamir._product(a, b) == shamir._product(b, a)
