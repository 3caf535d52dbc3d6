"""Questions about single features: counts, sums and squares, and what lies between the sites."""

from typing import Any

import numpy as np

from fedspca.linalg.feature_sums import deviations_from, missing_counts
from fedspca.linalg.profile import Profile
from fedspca.linalg.row_blocks import Sums, dense_parts, total
from fedspca.linalg.units import unit_factors
from fedspca.site.answers.frames import frame_of, raw_frame
from fedspca.site.errors import InvalidQuery
from fedspca.site.question import Query, SiteData, State, Terms


def moments(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """N and Σx, and for each feature the number of values that are not missing."""
    n, d = data.rows.shape
    if not data.preparation.counts_rows:
        raise InvalidQuery(data.site, query.name, "its rows have weights: ask weighted_moments.")
    counts = n - missing_counts(data.rows) if data.missing else np.full(d, float(n))
    return state, {"rows": np.array(float(n)), "counts": counts, "sums": data.sums()}


def weighted_moments(data: SiteData, state: State, _query: Query) -> tuple[State, Terms]:
    """Rows that count, Σw as given and as used, and Σwx, and Σw per feature over values not missing."""
    n, d = data.rows.shape
    weights = data.beside.ones(n)
    here = np.full(d, weights.sum())
    return state, {
        "rows": np.array(float(np.count_nonzero(weights))),
        "weight": np.array(data.weight),
        "used": np.array(weights.sum()),
        "weights": here - missing_counts(data.rows, data.beside) if data.missing else here,
        "sums": data.sums(),
    }


def deviations(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σ(x − μ) and Σ(x − μ)² by feature, about the mean of all sites; the first corrects the mean for rounding."""
    return state, deviation_sums(data, query)


def deviation_sums(data: SiteData, query: Query) -> Terms:
    """Return Σe and Σe² by feature, about the mean and after the covariates that the question names."""
    frame, spread = raw_frame(data, query)
    offsets, squares = data.deviations_from(frame.mean, frame.adjustment)
    if data.own is not None:  # rounding errors of a feature that is constant at this site are no variance
        dust = (2 * np.finfo(float).eps * np.abs(data.own.mean)) ** 2 * data.beside.ones(data.rows.shape[0]).sum()
        squares = np.where(squares <= dust, 0.0, squares)
    return {"offsets": offsets / spread, "squares": squares / spread**2}


def between_sites(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σx, (Σx)²/n and Σ(x − x̄)² of this site about the joint mean, and (Σa)²/n of what is analysed, by feature.

    Summed over the sites, they give the variance between the sites' means, before and after the adjustment.
    """
    joint = query.arrays["mean"] if data.own is None else np.zeros(data.rows.shape[1])
    n = data.beside.ones(data.rows.shape[0]).sum()
    sums, squares = deviations_from(data.rows, joint, missing=data.missing, beside=data.beside)
    left = data.standardised_in(frame_of(query)).row_sums()
    return state, {
        "sums": sums,
        "between": sums**2 / n,
        "within": np.maximum(squares - sums**2 / n, 0.0),
        "left": left**2 / n,
    }


def odd_units(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """For each feature, 1 if its unit looks wrong at this site beside the other sites, else 0: the sum counts sites."""
    if not data.preparation.plain:
        raise InvalidQuery(
            data.site, query.name, "rows with covariates, weights or a mean of their own are not compared."
        )
    own, joint = Profile.of(data.rows), Profile.of_sums(*(query.arrays[name] for name in ("counts", "mean", "spread")))
    return state, {"odd": (unit_factors(own, joint.without(own)) != 1).astype(np.float64)}


def counts_below(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """How many values are not above each edge, by feature."""
    edges = query.arrays["edges"]

    def of(block: Any) -> Sums:
        counts = np.zeros(edges.shape)
        for dense in dense_parts(block):
            for j, column in enumerate(dense.T):
                counts[:, j] += np.searchsorted(np.sort(column[np.isfinite(column)]), edges[:, j], side="right")
        return (counts,)

    return state, {"below": total(data.rows, of)[0]}
