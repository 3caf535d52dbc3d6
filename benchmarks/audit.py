"""Does anyone learn more from a private release than the ledger says? Each question is tried, by an attacker who knows.

Three masked sites, of which one works for the coordinator: it tells its own terms and noise, so the attacker sees the
sum over the two others, with the noise that the agreement counts on. It knows all rows but one, and looks along the
direction in which that row would move the sum. From how often it is right follows a lower bound on ε, with 95 %
confidence (Clopper and Pearson); a release is broken if that exceeds what the ledger charges for it.

The numbers of a question are those of an honest run, or the worst that a hostile coordinator can get past a door: the
shortest and the longest clip, the coarsest and the finest grid, directions along the row. The last line is the plant:
without noise the audit must find more than was charged.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from fedspca.door.agreement import Agreement, noise_among
from fedspca.door.meaning import objection
from fedspca.dp.accounting import epsilon_of
from fedspca.dp.plan import OFFSET, length_edges
from fedspca.site.queries import QUERIES
from fedspca.site.question import Query, SiteData

Array = NDArray[np.float64]

D = 4
DELTA = 1e-6
TRIALS = 4000
MULTIPLIER = 1.2  # noise in units of what a row can change: ε of about 4, where an audit sees most
CONFIDENCE = 0.95
UNITS = 1 << 22  # of the grid in a standard deviation: the door asks for 2²⁰ at each site
FINEST = 1 << 45


class Case(NamedTuple):
    """A question that the door takes, the agreement under which it does, and whose numbers they are."""

    query: Query
    agreement: Agreement
    whose: str


def cases() -> Iterator[Case]:
    """Every private question, with honest numbers and with the worst that pass."""
    edges = length_edges(D)
    for name in ("private_gram", "private_moments", "private_product", "private_lengths"):
        yield _case(name, "honest", float(edges[len(edges) // 2]), UNITS)
        if name != "private_lengths":
            yield _case(name, "shortest clip", float(edges[0]), UNITS)
            yield _case(name, "longest clip", float(edges[-1]), UNITS)
        yield _case(name, "finest grid", float(edges[len(edges) // 2]), FINEST)


def _case(name: str, whose: str, clip: float, units: int) -> Case:
    mechanism = "gram" if name in {"private_gram", "private_lengths"} else "product"
    privacy = {"epsilon": 10.0, "delta": DELTA, "mechanism": mechanism}
    agreement = Agreement(
        "audit", "key", {site: site for site in "abc"}, tuple("wxyz"), {}, privacy=privacy, min_sites=3
    )
    arrays = {"centre": np.zeros(D), "scale": np.ones(D)}
    scalars: dict[str, Any] = {"among": noise_among(agreement)}
    change = 1.0
    if name == "private_lengths":
        arrays["edges"] = length_edges(D)
    else:
        scalars["clip"], change = clip, clip**2
    if name in {"private_gram", "private_moments"}:
        scalars["offset"], change = OFFSET * clip, clip**2 * (1 + OFFSET**2)
    if name == "private_product":
        arrays["directions"] = np.full((D, 1), 0.5)  # along the row that is looked for
    sigma = MULTIPLIER * change
    query = Query(name, arrays, {**scalars, "sigma": sigma, "grid": math.ceil(math.log2(units / sigma))})
    QUERIES[name].validate("a", D, query)
    if (problem := objection(agreement, query, {})) is not None:
        raise ValueError(f"{name}, {whose}: {problem}")
    return Case(query, agreement, whose)


def charged(query: Query) -> float:
    """Return the ε that a ledger charges for one such release."""
    cost = QUERIES[query.name].cost
    assert cost is not None
    return epsilon_of([cost(D, query)], DELTA)


def found(query: Query, rng: np.random.Generator) -> float:
    """Return a lower bound on the ε of a release, from how well the attacker tells whether the row is there."""
    others = [0.01 * rng.standard_normal((5, D)) for _ in range(2)]
    row = np.full((1, D), 1e6)
    without, with_row = SiteData("a", others[0]), SiteData("a", np.vstack([others[0], row]))
    second = SiteData("b", others[1])
    with patch("fedspca.dp.noise.discrete_gaussian", lambda _, size: np.zeros(size)):
        moved = _answer(with_row, query) - _answer(without, query)
    outcomes = [
        np.array([(_answer(data, query) + _answer(second, query)) @ moved for _ in range(TRIALS)])
        for data in (without, with_row)
    ]
    return _lower_bound(*outcomes)


def _answer(data: SiteData, query: Query) -> Array:
    _, terms = QUERIES[query.name].answer(data, None, query)
    (values,) = terms.values()
    return values.ravel()


def _lower_bound(without: Array, with_row: Array) -> float:
    """Choose a threshold on one half, and judge it on the other."""
    half = TRIALS // 2
    thresholds = np.quantile(with_row[:half], [0.1, 0.25, 0.5, 0.75, 0.9])
    best = max(thresholds, key=lambda t: np.mean(with_row[:half] >= t) / (np.mean(without[:half] >= t) + 2 / half))
    hits, alarms = int(np.sum(with_row[half:] >= best)), int(np.sum(without[half:] >= best))
    low = beta.ppf((1 - CONFIDENCE) / 2, hits, half - hits + 1) if hits else 0.0
    high = beta.ppf((1 + CONFIDENCE) / 2, alarms + 1, half - alarms) if alarms < half else 1.0
    return math.log((low - DELTA) / high) if low > DELTA else 0.0


def main() -> None:
    """Print what each release is charged, and what is found."""
    rng = np.random.default_rng(0)
    for case in cases():
        stated, seen = charged(case.query), found(case.query, rng)
        verdict = "below" if seen <= stated else "ABOVE"
        print(f"{case.query.name}, {case.whose}: ε = {stated:.2f} in the ledger, {seen:.2f} found: {verdict}")
    plant = next(cases()).query
    with patch("fedspca.dp.noise.discrete_gaussian", lambda _, size: np.zeros(size)):
        stated, seen = charged(plant), found(plant, rng)
    verdict = "noticed" if seen > stated else "MISSED"
    print(f"the plant, no noise: ε = {stated:.2f} in the ledger, {seen:.2f} found: {verdict}")
