"""What a parameter must be, in words that a person understands who does not program."""

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

NAMED = {
    "array-like": "a list with one for each component",
    "boolean": "True or False",
    "random_state": "a seed, which is a whole number from 0 to 4294967295",
    "verbose": "a whole number of at least 0",
    list: "a list",
}


def refusal(estimator: str, name: str, allowed: Sequence[Any], value: Any) -> InvalidParameterError:
    """Return the error for a parameter of a value that is not allowed."""
    return InvalidParameterError(
        f"The {name!r} parameter of {estimator} must be {in_words(allowed)}. Got {value!r} instead."
    )


def takes_truth(allowed: Sequence[Any]) -> bool:
    """Whether True and False are values of a parameter, as scikit-learn states what is allowed."""
    return any(isinstance(each, str) and each in ("boolean", "verbose") for each in allowed)


def in_words(allowed: Sequence[Any]) -> str:
    """Return what is allowed, as scikit-learn states it, in words; None and other classes go without saying."""
    return _either([words for each in allowed if (words := _one_in_words(each))])


def _one_in_words(allowed: Any) -> str:
    if isinstance(allowed, Interval):
        return _interval_in_words(allowed)
    if isinstance(allowed, StrOptions):
        return _either(sorted(map(repr, allowed.options)))
    if allowed is Integral:
        return "a whole number"
    return NAMED.get(allowed, "") if isinstance(allowed, str | type) else ""


def _either(options: Sequence[str]) -> str:
    return " or ".join(part for part in (", ".join(options[:-1]), *options[-1:]) if part)


def _interval_in_words(allowed: Interval) -> str:
    kind = "a whole number" if allowed.type is Integral else "a number"
    ends = []
    if allowed.left is not None:
        ends.append(f"{'of at least' if allowed.closed in ('left', 'both') else 'above'} {allowed.left:g}")
    if allowed.right is not None:
        ends.append(f"{'at most' if allowed.closed in ('right', 'both') else 'below'} {allowed.right:g}")
    return f"{kind} {' and '.join(ends)}".strip()
