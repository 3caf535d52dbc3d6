"""Columns that are permuted by a generator whose seed can be guessed: products of rows with rows, and known which.

The seed that a question brings, the site's name and a check sum of the first record are all that such a generator would
depend on. Of a record with two values of yes or no there are four.
"""

from itertools import product
from zlib import crc32

import numpy as np
import pytest

from fedspca import Query, Site, SiteRefusal
from fedspca.door import session
from fedspca.site.errors import InvalidQuery
from fedspca.site.queries import QUERIES
from helpers.hostile import frame, masked

ROWS, SEED, ASKED = 8, 7, 300
NAMES = ("a", "b", "c")


def tables():
    return [np.random.default_rng(k).integers(0, 2, (ROWS, 2)).astype(float) for k in range(3)]


def asked(first=0, permutations=100):
    scalars = {"seed": SEED, "first": first, "permutations": permutations, "precision": "float64"}
    return Query("permuted_gram", frame(2, mean=0.5), scalars)


def equations(site, record):
    """Which rows of a site are multiplied with which, each time, if this is its first record."""
    found, seen = np.zeros((ASKED, ROWS, ROWS)), crc32((np.array(record)[:, None] - 0.5).tobytes())
    for number in range(ASKED):
        rng = np.random.default_rng([SEED, crc32(site.encode()), number, seen])
        np.add.at(found[number], tuple(rng.permuted(np.tile(np.arange(ROWS), (2, 1)), axis=1)), 1.0)
    return found.reshape(ASKED, -1)


def recovered():
    """Return how well each site's first column is known, row by row, from masked sums: 1 if it is known."""
    here = [Site(name, table) for name, table in zip(NAMES, tables(), strict=True)]
    federation = masked(here)
    told = np.concatenate([federation.sum(asked(first))["permuted"] for first in range(0, ASKED, 100)])[:, 1]
    records = list(product((0.0, 1.0), repeat=2))
    options = [[equations(name, record) for record in records] for name in NAMES]
    best = min(product(*options), key=lambda parts: np.linalg.norm(told - _fitted(parts, told)[0]))
    outer = _fitted(best, told)[1].reshape(3, ROWS, ROWS)
    outer -= outer.mean(axis=1, keepdims=True)
    outer -= outer.mean(axis=2, keepdims=True)
    columns = [np.linalg.svd(part)[0][:, 0] for part in outer]
    return [abs(np.corrcoef(column, table[:, 0])[0, 1]) for column, table in zip(columns, tables(), strict=True)]


def _fitted(parts, told):
    matrix = np.hstack(parts)
    found = np.linalg.lstsq(matrix, told)[0]
    return matrix @ found, found


def test_without_the_defence_every_row_of_every_site_follows_from_the_sums(monkeypatch):
    monkeypatch.setattr(session, "drawn_here", lambda query: query)
    monkeypatch.setattr("fedspca.door.meaning.MOST_PERMUTED", ASKED)
    assert min(recovered()) > 1 - 1e-6


def test_a_site_draws_its_permutations_itself(monkeypatch):
    monkeypatch.setattr("fedspca.door.meaning.MOST_PERMUTED", ASKED)
    assert max(recovered()) < 1 - 1e-3


def test_columns_are_not_permuted_without_end():
    federation = masked([Site(name, table) for name, table in zip(NAMES, tables(), strict=True)])
    federation.sum(asked(permutations=60))
    federation.sum(asked(permutations=40))
    with pytest.raises(SiteRefusal, match="100 times in a study"):
        federation.sum(asked(permutations=1))


def test_one_answer_holds_no_more_than_an_honest_run_asks_for():
    """A hundred covariances of 4,096 features would take 6.7 GB at every site."""
    with pytest.raises(InvalidQuery, match="permutations of 1 to 1"):
        QUERIES["permuted_gram"].validate("a", 4096, Query("permuted_gram", frame(4096), asked(permutations=2).scalars))
    QUERIES["permuted_gram"].validate("a", 4096, Query("permuted_gram", frame(4096), asked(permutations=1).scalars))
