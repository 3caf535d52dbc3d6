"""How terms become integers: one rule for both sides, so that a coordinator cannot learn from a scale of its choice.

Whether a number is below a bound, and how it is rounded, reveals something about a single site. A coordinator that
could choose the bounds could find any number by bisection. So counts, averages and all terms without a known bound have
one fixed coding each. The scale of products follows from the trace of S, in steps of 2⁸, and is fixed for a whole
study.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedspca.masking.fixed_point import WIDE, Coding
from fedspca.site.answers.products import asked_directions
from fedspca.site.queries import PRIVATE, QUERIES
from fedspca.site.question import Query

BOUNDED = frozenset(
    {"product", "captured", "gram", "permuted"}
)  # no entry exceeds the trace, for directions of length one
ALWAYS = dict.fromkeys(("rows", "counts", "odd", "sites"), Coding(1, 0)) | {"consensus": Coding(2, 64)}
STEP = 8
LARGEST_BASE = 896


def codings(query: Query, base: int | None) -> dict[str, Coding]:
    """Return the coding of each term of a question's answer, given the study's scale; None where it is not known."""
    terms = QUERIES[query.name].terms
    if query.name in PRIVATE:  # the site rounds to a grid itself, before it adds noise
        return dict.fromkeys(terms, Coding(1, int(query.scalars["grid"])))
    found = {name: ALWAYS.get(name, WIDE) for name in terms}
    if base is not None:
        found |= {name: Coding(1, base - _longer(query)) for name in terms if name in BOUNDED}
    return found


def base_of(trace: float, sites: int) -> int | None:
    """Return the scale of a study in which the trace of S is at most ``trace``."""
    exact = 62 - (sites - 1).bit_length() - math.ceil(math.log2(trace))
    base = STEP * math.floor(exact / STEP)
    return base if abs(base) <= LARGEST_BASE else None


def stated_base(query: Query, given: Mapping[str, Any]) -> int | None:
    """Return the scale that the codings of a letter imply; None if they need none, or break the rule."""
    bounded = next((coding for name, coding in given.items() if name in BOUNDED), None)
    if query.name in PRIVATE or bounded is None or bounded[0] != 1:
        return None
    return int(bounded[1]) + _longer(query)


def unruly(query: Query, given: Mapping[str, Any], base: int | None) -> str | None:
    """Return what is wrong with the codings of a letter, given the scale that the study has so far, or None."""
    as_given = {name: Coding(*coding) for name, coding in given.items()}
    if as_given == codings(query, None):
        return None
    if query.name in PRIVATE:
        return "with noise, integers must be those of the noise's own grid."
    stated = stated_base(query, given)
    if stated is None or as_given != codings(query, stated) or stated % STEP or abs(stated) > LARGEST_BASE:
        return "its terms must become integers by the rule that both sides know."
    if base not in (None, stated):
        return "a study has one scale of integers, and another was used before."
    return None


def _longer(query: Query) -> int:
    """How many more bits products with random directions may need, because these do not have length one."""
    if "columns" not in query.scalars:
        return 0
    longest = float(np.linalg.norm(asked_directions(query), axis=0).max(initial=1.0))
    return math.ceil(math.log2(max(longest, 1.0)))
