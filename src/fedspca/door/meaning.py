"""Check the meaning of a question between institutions; its shape is checked elsewhere.

A coordinator may ask only what an honest run of the approved study would ask. The checks depend only on the question,
the agreement and earlier questions, never on rows. So a refusal reveals nothing about the rows.

- Absolute values are between 10^-30 and 10^30; smaller ones count as zero. So no product is rounded away in a sum.
- Directions are orthonormal, or of length one where loadings may overlap.
- Columns are permuted a hundred times at most, and by the site's own randomness, whatever seed is asked for.
- Rows are assigned to the folds of the agreement, by its seed, and in no other way.
- A study has one frame: the means and scales of the first question that contains them, and the coefficients of the
  covariates, if the study adjusts for covariates.
- Site effects (ComBat) are measured against one set of joint means and spreads.
- Units are compared with one joint mean, spread and count of values: with others, the counts of sites would tell each
  site's own, by bisection.
- Sites begin a consensus at a common point.
- A release with noise is the one that the agreement states: its mechanism, clip, centre, scale and lengths.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import BETWEEN_AT_LEAST, Agreement
from fedspca.dp.plan import OFFSET, length_edges, per_feature, planned_releases
from fedspca.site.preparation import Preparation
from fedspca.site.queries import AVERAGED, PRIVATE
from fedspca.site.question import DEAL, ORTHONORMAL, SMALLEST, Query, not_orthonormal, out_of_range

Array = NDArray[np.float64]
Kept = Mapping[str, NDArray[Any]]

# they contain means but no scales
ABOUT_MEANS = frozenset({"deviations", "covariate_moments", "residuals", "harmonised"})
CONSENSUS = AVERAGED | {"curvature"}  # not sums over rows: even under masks they reveal single sites
FRAMES = "study:frames"
ADJUSTMENTS = "study:adjustments"
REFERENCES = "study:references"
BEFORE_COMBAT = frozenset({"moments", "deviations", "covariate_sums", "within_moments", "within_squares"})
MEANS = "study:means"
ERRORS_ASKED = "row errors asked"  # in this run
UNITS = "study:units"  # the joint figures with which sites compared theirs
SUBSPACES = "study:subspaces"  # the subspaces for which row errors were released
SAME = 1e-6  # largest difference of means and scales between runs of a study, in units of the scale
ALIKE = 1e-12  # largest difference of values that both sides compute from the agreement
PERMUTED = "study:permuted"  # how often columns were permuted
MOST_PERMUTED = 100  # in a study; an honest run asks for twenty
MOST_STEPS = 1000
MOST_MEANS = 3


def objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Return why a question of the right form is not one that an honest run would ask, or None.

    Parameters
    ----------
    agreement : Agreement
        What the owner approved.
    query : Query
        The question, whose form is valid.
    kept : mapping of str to ndarray
        What :func:`remembered` kept of earlier questions.
    """
    return (
        out_of_range(query)
        or _private_objection(agreement, query)
        or _consensus_objection(agreement, query)
        or _folds_objection(agreement, query)
        or _permutations_objection(query, kept)
        or _between_objection(agreement, query)
        or _units_objection(agreement, query, kept)
        or _directions_objection(query)
        or _adjustment_objection(agreement, query, kept)
        or _reference_objection(agreement, query, kept)
        or _frame_objection(agreement, query, kept)
    )


def remembered(query: Query, kept: Kept) -> dict[str, NDArray[Any]]:
    """Return what later questions are compared with, including this question."""
    changed: dict[str, NDArray[Any]] = {}
    if (adjustment := _adjustment(query)) is not None:
        changed |= _with(kept, ADJUSTMENTS, adjustment, lambda known: _near(adjustment, known))
    if (reference := _reference(query)) is not None:
        changed |= _with(kept, REFERENCES, reference, lambda known: _near(reference, known))
    changed |= _about(query, kept)
    if query.name == "permuted_gram":
        changed[PERMUTED] = np.array([_permuted(query, kept)])
    if query.name == "row_errors":
        changed[ERRORS_ASKED] = np.array([1 + int(kept.get(ERRORS_ASKED, np.zeros(1))[0])])
        told = _told_before(query, kept) is not None
        changed |= _with(kept, SUBSPACES, query.arrays["directions"], lambda _: told)
    return changed


def _about(query: Query, kept: Kept) -> dict[str, NDArray[Any]]:
    """Return the means, the joint figures or the frame that a question contains, beside those before."""
    if "mean" not in query.arrays:
        return {}
    mean = query.arrays["mean"]
    if query.name in ABOUT_MEANS:
        return _with(kept, MEANS, mean, lambda known: np.array_equal(mean, known))
    if query.name == "odd_units":
        return _with(kept, UNITS, _joint_figures(query), lambda known: _compared_with(query, known))
    return _with(kept, FRAMES, np.stack([mean, query.arrays["scale"]]), lambda known: _same_frame(query, known))


def _with(kept: Kept, name: str, value: Array, same: Callable[[Array], bool]) -> dict[str, NDArray[Any]]:
    """Return what is kept under a name with one more value, or nothing if there is a value that is the same."""
    before = kept.get(name, np.zeros((0, *value.shape)))
    return {} if any(same(known) for known in before) else {name: np.concatenate([before, [value]])}


def tidied(query: Query, kept: Kept) -> Query:
    """Return the question with numbers below 10^-30 set to zero; otherwise they could make rounding drop single rows.

    If row errors for the same subspace were released before, exactly the same directions are used again. Row errors
    contain fourth powers of the rows: with slightly different directions in each run, they would together reveal all
    fourth moments.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name, array in query.arrays.items():
        tiny = np.abs(array) < SMALLEST
        arrays[name] = np.where(tiny, 0.0, array) if name != "scale" and (tiny & (array != 0)).any() else array
    if query.name == "row_errors" and (before := _told_before(query, kept)) is not None:
        arrays["directions"] = before
    return Query(query.name, arrays, query.scalars)


def _private_objection(agreement: Agreement, query: Query) -> str | None:
    privacy, d = agreement.privacy, len(agreement.features)
    if query.name not in PRIVATE:
        return None
    if privacy is None:
        return "the study that the owner approved releases nothing with noise."
    if query.name not in planned_releases(privacy, d):
        return "the mechanism that the owner approved does not release it."
    for name, usual in (("centre", 0.0), ("scale", 1.0)):
        if not np.array_equal(query.arrays[name], per_feature(name, privacy.get(name, usual), d)):
            return f"its {name} is not the one that the agreement states."
    if query.name == "private_lengths":
        edges = length_edges(d)
        same = query.arrays["edges"].shape == edges.shape and np.allclose(query.arrays["edges"], edges, rtol=ALIKE)
        return None if same else "its lengths are not those of every private study."
    clip = float(query.scalars["clip"])
    stated = length_edges(d) if privacy.get("clip") is None else np.array([float(privacy["clip"])])
    if not np.isclose(clip, stated, rtol=ALIKE, atol=0.0).any():
        return "its clip is not the one that the agreement states, nor one of the lengths by which rows are counted."
    offset = float(query.scalars.get("offset", OFFSET * clip))
    return None if np.isclose(offset, OFFSET * clip, rtol=ALIKE, atol=0.0) else "its offset is not that of its clip."


def _consensus_objection(agreement: Agreement, query: Query) -> str | None:
    if query.name not in CONSENSUS:
        return None
    if agreement.masked and not agreement.consensus_under_masks:
        return "under masks, consensus steps tell of single sites, and the owner has not approved that by name."
    if query.name not in AVERAGED:
        return None
    if query.scalars["iteration"] == 0 and "start" not in query.arrays:
        return "between institutions sites begin at a common point, and it brings none (init='warm', or an array)."
    if query.scalars.get("begin") == "random":
        return "between institutions each round begins where the last ended (local_start='last')."
    if int(query.scalars.get("steps", 0)) > MOST_STEPS:
        return f"it asks for more than {MOST_STEPS} steps of descent."
    return None


def _folds_objection(agreement: Agreement, query: Query) -> str | None:
    """Refuse folds other than the agreed ones: the difference of two assignments could be a sum over a few rows."""
    if not query.folds or (query.folds, query.scalars[DEAL]) == (agreement.folds, agreement.fit.get("seed")):
        return None
    if not agreement.folds:
        return "the study that the owner approved has no folds."
    return "its folds are not those that the owner approved."


def _between_objection(agreement: Agreement, query: Query) -> str | None:
    """Refuse sums of squares over three masked sites: each site would learn the sum and squares of the other two."""
    if query.name != "between_sites" or not agreement.masked or len(agreement.sites) >= BETWEEN_AT_LEAST:
        return None
    return "under masks what lies between sites is told of four sites or more: of three, each would know the others'."


def _units_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Refuse to compare units with other joint figures than before: many counts of sites are a bisection."""
    before = kept.get(UNITS, ())
    if (
        query.name != "odd_units"
        or len(before) < _most_frames(agreement)
        or any(_compared_with(query, known) for known in before)
    ):
        return None
    return "units were compared with another joint mean and spread before, and a study has one."


def _compared_with(query: Query, known: Array) -> bool:
    """Whether the joint figures are these, up to rounding differences between machines."""
    figures = _joint_figures(query)
    size = np.maximum(np.abs(figures), np.abs(query.arrays["spread"]))
    return bool(np.all(np.abs(figures - known) <= SAME * size))


def _joint_figures(query: Query) -> Array:
    return np.stack([query.arrays[name] for name in ("counts", "mean", "spread")])


def _permutations_objection(query: Query, kept: Kept) -> str | None:
    """Limit the number of permutations: the spread of their sums reveals the spread of each site's values."""
    if query.name != "permuted_gram" or _permuted(query, kept) <= MOST_PERMUTED:
        return None
    return f"columns are permuted at most {MOST_PERMUTED} times in a study, in all its runs."


def _permuted(query: Query, kept: Kept) -> int:
    return int(kept.get(PERMUTED, np.zeros(1))[0]) + int(query.scalars["permutations"])


def _directions_objection(query: Query) -> str | None:
    for name in ("removed", "start"):
        if name in query.arrays and (problem := not_orthonormal(name, query.arrays[name])) is not None:
            return problem
    if "directions" not in query.arrays:
        return None
    directions = query.arrays["directions"]
    if query.name != "captured_variance":
        return not_orthonormal("directions", directions)
    lengths = np.linalg.norm(directions, axis=0)  # loadings may overlap
    return None if np.all(np.abs(lengths - 1) <= ORTHONORMAL) else "directions must be of length one."


def _adjustment_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Return why covariates are not taken out as the agreement says, or None."""
    lines = len(Preparation.of(agreement.fit).design.lines)
    asked = [len(query.arrays[name]) for name in ("covariates", "covariate_mean") if name in query.arrays]
    if asked and asked[0] != lines:
        return f"it brings {asked[0]} column(s) of covariates, and the study that the owner approved has {lines}."
    seen = ABOUT_MEANS | {"moments", "weighted_moments", "covariate_sums", "within_moments"}
    if lines and query.name not in seen and "mean" in query.arrays and "coefficients" not in query.arrays:
        return "it takes no covariates out, and the study that the owner approved does."
    adjustment, before = _adjustment(query), kept.get(ADJUSTMENTS)
    if adjustment is None or before is None or len(before) < _most_frames(agreement):
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
    if before is None or len(before) < _most_frames(agreement) or any(_near(reference, one) for one in before):
        return None
    return "other means and spreads were brought before to measure site effects against, and a study has one set."


def _near(one: Array, other: Array) -> bool:
    """Whether two adjustments are equal up to rounding differences between machines."""
    return bool(np.all(np.abs(one - other) <= SAME * np.abs(other).max(axis=1, keepdims=True)))


def _frame_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    frames = _most_frames(agreement)
    if query.name in ABOUT_MEANS:
        means = kept.get(MEANS)
        if means is not None and len(means) >= MOST_MEANS * frames and not _known(query.arrays["mean"], means):
            return "deviations were asked about other means before, and a study has one."
        return None
    if query.name == "row_errors" and int(kept.get(ERRORS_ASKED, np.zeros(1))[0]) >= frames:
        return "row errors are told once in a run, about the final loadings."
    if query.name == "row_errors" and len(kept.get(SUBSPACES, ())) >= frames and _told_before(query, kept) is None:
        return "row errors are told about one subspace in a study, and they were told about another."
    before = kept.get(FRAMES)
    if before is None or "scale" not in query.arrays or len(before) < frames:
        return None
    if any(_same_frame(query, frame) for frame in before):
        return None
    return (
        "rows were seen about other means and in other scales before, and a study has one frame. If the data were "
        "changed, agree on a new study."
    )


def _most_frames(agreement: Agreement) -> int:
    """Return how many frames a study may have: one; without masks, one more for each site that may be lost."""
    if agreement.masked or agreement.on_dropout != "continue":
        return 1
    return 1 + len(agreement.sites) - agreement.min_sites


def _told_before(query: Query, kept: Kept) -> Array | None:
    """Return earlier directions of released row errors that span the same subspace up to rounding; None otherwise."""
    asked = query.arrays["directions"]
    for before in kept.get(SUBSPACES, ()):
        if before.shape == asked.shape and np.linalg.norm(before - asked @ (asked.T @ before), 2) <= SAME:
            return np.asarray(before)
    return None


def _known(mean: Array, means: Array) -> bool:
    return any(np.array_equal(mean, before) for before in means)


def _same_frame(query: Query, frame: Array) -> bool:
    """Whether means and scales equal those of a frame, up to rounding differences between machines."""
    (mean, scale), (asked_mean, asked_scale) = frame, (query.arrays["mean"], query.arrays["scale"])
    kept = np.isfinite(scale)
    if not np.array_equal(kept, np.isfinite(asked_scale)):
        return False
    unit = np.maximum(scale[kept], np.abs(mean[kept]))
    near_mean = np.abs(asked_mean - mean)[kept] <= SAME * unit
    near_scale = np.abs(asked_scale[kept] - scale[kept]) <= SAME * scale[kept]
    left_out = np.array_equal(asked_mean[~kept], mean[~kept])
    return bool(near_mean.all() and near_scale.all() and left_out)
