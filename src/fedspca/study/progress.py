"""The progress of a run: the number of the current question, of about how many, and the time that is left."""

import statistics
from collections.abc import Sequence

from fedspca.door.agreement import Agreement
from fedspca.site.policy import GRAM
from fedspca.study.settings import CONSENSUS, ODD_UNITS

# Questions of a whole run, counted on runs of each kind. Where the covariance is asked for, the number is nearly fixed.
WITH_COVARIANCE, BY_PRODUCTS = 4, 12
PATH_WITH_COVARIANCE, PATH_BY_PRODUCTS = 3, 12
AFTER_SAMPLE = 2


def expected_questions(agreement: Agreement) -> int | None:
    """Return about how many sums a run asks for; None if it cannot be predicted."""
    if (
        agreement.privacy is not None
        or agreement.fit.get("solver") in CONSENSUS
        or agreement.fit.get("missing") == "em"
    ):
        return None
    path = bool(agreement.fit.get("path"))
    units = ODD_UNITS in agreement.questions
    if agreement.sample:
        first = WITH_COVARIANCE if GRAM in agreement.questions else BY_PRODUCTS
        return first + AFTER_SAMPLE + units + path * PATH_BY_PRODUCTS
    if GRAM in agreement.questions:
        return WITH_COVARIANCE + units + path * PATH_WITH_COVARIANCE
    return BY_PRODUCTS + units + path * PATH_BY_PRODUCTS


def seconds_left(number: int, expected: int | None, seconds: Sequence[float]) -> float | None:
    """Return about how many seconds are left, from the time of the questions so far; None if it cannot be predicted."""
    if expected is None or number >= expected or not seconds:
        return None
    return (expected - number) * statistics.median(seconds)


def in_words(number: int, expected: int | None, query: str, seconds: float, left: float | None) -> str:
    """Return one line about a question that was answered."""
    of = "" if expected is None else f" of about {expected}" if number <= expected else ", more than usual"
    rest = "" if left is None else f"; about {_duration(left)} left"
    return f"question {number}{of}: {query}, {seconds:.1f} s{rest}"


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
