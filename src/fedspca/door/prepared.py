"""Check how a question prepares the rows: covariates, site effects and transforms, as the owner approved them.

A study has one set of coefficients of the covariates, one set of means and spreads against which site effects are
measured (ComBat), and one transform that needs all sites. Whoever could bring others could choose which rows count.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement
from fedspca.site.errors import count
from fedspca.site.preparation import Preparation
from fedspca.site.question import Query

Array = NDArray[np.float64]
Kept = Mapping[str, NDArray[Any]]

# they contain means but no scales
ABOUT_MEANS = frozenset({"deviations", "covariate_moments", "residuals", "harmonised"})
ADJUSTMENTS = "study:adjustments"
REFERENCES = "study:references"
MAPS = "study:maps"  # the transform that needed all sites
EDGES = "study:edges"
MOST_COUNTED = 3  # sets of edges at which values are counted, in a study with one frame
BEFORE_MAPS = frozenset({"moments", "deviations", "counts_below", "private_counts"})
MAP_OF = {"pearson": "count_shares", "normal": "knots", "winsorise": "knots"}
BEFORE_COMBAT = frozenset({"moments", "deviations", "covariate_sums", "within_moments", "within_squares"})
SAME = 1e-6  # largest difference of means and scales between runs of a study, in units of the scale


def preparation_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Return why a question does not prepare the rows as the agreement says, or None."""
    return (
        _adjustment_objection(agreement, query, kept)
        or _reference_objection(agreement, query, kept)
        or _map_objection(agreement, query, kept)
    )


def remembered_preparation(query: Query, kept: Kept) -> dict[str, NDArray[Any]]:
    """Return what later questions are compared with: coefficients, references, transforms, and edges of counts."""
    changed: dict[str, NDArray[Any]] = {}
    brought = {ADJUSTMENTS: _adjustment, REFERENCES: _reference, MAPS: _map, EDGES: _edges}
    for name, of in brought.items():
        asked = of(query)
        if asked is not None and not any(_near(asked, one) for one in kept.get(name, ())):
            changed[name] = np.concatenate([kept.get(name, np.zeros((0, *asked.shape))), [asked]])
    return changed


def _adjustment_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Return why covariates are not taken out as the agreement says, or None."""
    lines = len(Preparation.of(agreement.fit).design.lines)
    asked = [len(query.arrays[name]) for name in ("covariates", "covariate_mean") if name in query.arrays]
    if asked and asked[0] != lines:
        brought = count(asked[0], "column")
        return f"it brings {brought} of covariates, and the study that the owner approved has {lines}."
    seen = ABOUT_MEANS | {"moments", "weighted_moments", "covariate_sums", "within_moments"}
    if lines and query.name not in seen and "mean" in query.arrays and "coefficients" not in query.arrays:
        return "it takes no covariates out, and the study that the owner approved does."
    adjustment, before = _adjustment(query), kept.get(ADJUSTMENTS)
    if adjustment is None or before is None or len(before) < most_frames(agreement):
        return None
    if any(_near(adjustment, known) for known in before):
        return None
    return "other coefficients of the covariates were brought before, and a study has one set."


def _adjustment(query: Query) -> Array | None:
    """Return what a question says of covariates as one array: their means, and the coefficients."""
    if "coefficients" not in query.arrays:
        return None
    return np.hstack([query.arrays["covariate_mean"][:, None], query.arrays["coefficients"]])


def _reference(query: Query) -> Array | None:
    """Return what site effects are measured against as one array: the joint means, and the spreads within sites."""
    if "reference_mean" not in query.arrays:
        return None
    return np.stack([query.arrays["reference_mean"], query.arrays["reference_spread"]])


def _reference_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Return why site effects are not taken out as the agreement says, or None."""
    combat = Preparation.of(agreement.fit).combat
    reference, before = _reference(query), kept.get(REFERENCES)
    if reference is None:
        if combat and query.name not in BEFORE_COMBAT and "mean" in query.arrays:
            return "it leaves the site's own shift and spread in the rows, and the study takes them out (ComBat)."
        return None
    if not combat:
        return "it takes a site's own shift and spread out (ComBat), and the study that the owner approved does not."
    if not (reference[1] >= 0).all():
        return "reference_spread must not be negative."
    if before is None or len(before) < most_frames(agreement) or any(_near(reference, one) for one in before):
        return None
    return "other means and spreads were brought before to measure site effects against, and a study has one set."


def _map(query: Query) -> Array | None:
    """Return the transform of a question as one array, a row a feature; None if it brings none."""
    if "knots" in query.arrays:
        return np.hstack([query.arrays["knots"].T, query.arrays.get("images", query.arrays["knots"]).T])
    if "count_shares" in query.arrays:
        return np.column_stack(
            [query.arrays["count_shares"], np.broadcast_to(query.arrays["clip"], query.arrays["count_shares"].shape)]
        )
    return None


def _edges(query: Query) -> Array | None:
    return query.arrays["edges"].T if query.name == "counts_below" else None


def _map_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Return why rows are not transformed as the agreement says, or None."""
    joint, frames = Preparation.of(agreement.fit).joint, most_frames(agreement)
    asked, edges, before = _map(query), _edges(query), kept.get(MAPS, ())
    if edges is not None:
        known = kept.get(EDGES, ())
        new = not any(_near(edges, one) for one in known)
        return "values were counted at other edges before." if new and len(known) >= MOST_COUNTED * frames else None
    if asked is None:
        if joint is not None and query.name not in BEFORE_MAPS:
            return f"it leaves the rows as they are, and the study transforms them first ({joint[0]})."
        return None
    if joint is None or MAP_OF[joint[0]] not in query.arrays:
        return "it brings a transform other than the one that the owner approved."
    if "knots" in query.arrays and not _rises(query.arrays["knots"], query.arrays["images"], joint[0]):
        return "its transform does not rise, or does more than to cut off."
    if len(before) < frames or any(_near(asked, one) for one in before):
        return None
    return "another transform was brought before, and a study has one."


def _rises(knots: Array, images: Array, name: str) -> bool:
    """Whether a transform keeps the order of values; to winsorise, it must also leave values between its knots."""
    rising = bool((np.diff(knots, axis=0) >= 0).all() and (np.diff(images, axis=0) >= 0).all())
    return rising and (name == "normal" or (len(knots) == 2 and np.array_equal(knots, images)))


def _near(one: Array, other: Array) -> bool:
    """Whether two adjustments are equal up to rounding differences between machines."""
    return bool(np.all(np.abs(one - other) <= SAME * np.abs(other).max(axis=1, keepdims=True)))


def most_frames(agreement: Agreement) -> int:
    """Return how many frames a study may have: one; without masks, one more for each site that may be lost."""
    if agreement.masked or agreement.on_dropout != "continue":
        return 1
    return 1 + len(agreement.sites) - agreement.min_sites
