"""Check the meaning of a question between institutions; its shape is checked elsewhere.

A coordinator may ask only what an honest run of the approved study would ask. The checks depend only on the question,
the agreement and earlier questions, never on rows. So a refusal reveals nothing about the rows.

- Absolute values are between 10^-30 and 10^30; smaller ones count as zero. So no product is rounded away in a sum.
- Directions are orthonormal, or of length one where loadings may overlap.
- Columns are permuted a hundred times at most, and by the site's own randomness, whatever seed is asked for.
- Rows are assigned to the folds or the sample of the agreement, by its seed, and in no other way. If there is a
  sample, the whole covariance is asked of the sample only.
- A study has one frame: the means and scales of the first question that contains them, and the coefficients of the
  covariates, if the study adjusts for covariates.
- Rows are seen through one transform, of the agreed kind, if the study has one that needs all sites.
- Site effects (ComBat) are measured against one set of joint means and spreads.
- Missing values are filled in once, by one Gaussian: with another one, the differences would tell of single rows.
- Units are compared with one joint mean, spread and count of values: with others, the counts of sites would tell each
  site's own, by bisection.
- Sites begin a consensus at a common point.
- A release with noise is the one that the agreement states: its mechanism, clip, centre, scale, lengths and bins.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import BETWEEN_AT_LEAST, Agreement
from fedspca.door.prepared import ABOUT_MEANS, SAME, most_frames, preparation_objection, remembered_preparation
from fedspca.dp.plan import OFFSET, length_edges, per_feature, planned_releases, seen_about, value_edges
from fedspca.site.policy import GRAM
from fedspca.site.preparation import Preparation
from fedspca.site.queries import AVERAGED, PRIVATE
from fedspca.site.question import DEAL, ORTHONORMAL, SMALLEST, Query, not_orthonormal, out_of_range

Array = NDArray[np.float64]
Kept = Mapping[str, NDArray[Any]]

CONSENSUS = AVERAGED | {"curvature"}  # not sums over rows: even under masks they reveal single sites
FRAMES = "study:frames"
MEANS = "study:means"
ABOUT_SITES = frozenset({"between_sites", "covariates_between"})
GAP_MOMENTS = "gap_moments"
GAPS_ASKED = "study:gaps"  # rounds of EM
MOST_GAPS = 60
FILLED_ONCE = "filled_once"
FILLS = "study:fills"  # the Gaussian by which missing values were filled in
ERRORS_ASKED = "row errors asked"  # in this run
UNITS = "study:units"  # the joint figures with which sites compared theirs
SUBSPACES = "study:subspaces"  # the subspaces for which row errors were released
ALIKE = 1e-12  # largest difference of values that both sides compute from the agreement
PERMUTED = "study:permuted"  # how often columns were permuted
MOST_PERMUTED = 100  # in a study; an honest run asks for twenty
MOST_STEPS = 1000
MOST_MEANS = 3
OF_A_SAMPLE = frozenset({GRAM, "gram_product", "gram_sketch"})
SAMPLE_FIRST = "the whole covariance is asked of the sample only, as the owner approved."


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
        or _sample_objection(agreement, query)
        or _permutations_objection(query, kept)
        or _between_objection(agreement, query)
        or _units_objection(agreement, query, kept)
        or _gaps_objection(agreement, query, kept)
        or _filling_objection(agreement, query, kept)
        or _directions_objection(query)
        or preparation_objection(agreement, query, kept)
        or _frame_objection(agreement, query, kept)
    )


def remembered(query: Query, kept: Kept) -> dict[str, NDArray[Any]]:
    """Return what later questions are compared with, including this question."""
    changed = remembered_preparation(query, kept) | _about(query, kept)
    if query.name == FILLED_ONCE:
        changed |= _with(kept, FILLS, _filling(query), lambda known: _same_filling(query, known))
    if query.name == GAP_MOMENTS:
        changed[GAPS_ASKED] = np.array([1 + int(kept.get(GAPS_ASKED, np.zeros(1))[0])])
    if query.name == "permuted_gram":
        changed[PERMUTED] = np.array([_permuted(query, kept)])
    if query.name == "row_errors":
        changed[ERRORS_ASKED] = np.array([1 + int(kept.get(ERRORS_ASKED, np.zeros(1))[0])])
        told = _told_before(query, kept) is not None
        changed |= _with(kept, SUBSPACES, query.arrays["directions"], lambda _: told)
    return changed


def _about(query: Query, kept: Kept) -> dict[str, NDArray[Any]]:
    """Return the means, the joint figures or the frame that a question contains, beside those before."""
    if "mean" not in query.arrays or query.name == GAP_MOMENTS:
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
    privacy, d, joint = agreement.privacy, len(agreement.features), Preparation.of(agreement.fit).joint
    if query.name not in PRIVATE:
        return None
    if privacy is None:
        return "the study that the owner approved releases nothing with noise."
    if query.name not in planned_releases(privacy, d, counts=joint is not None):
        return "the mechanism that the owner approved does not release it."
    counts = query.name == "private_counts"
    both = (per_feature(name, privacy.get(name, usual), d) for name, usual in (("centre", 0.0), ("scale", 1.0)))
    about = seen_about(None if counts else joint, *both)
    for name, agreed in zip(("centre", "scale"), about, strict=True):
        if not np.array_equal(query.arrays[name], agreed):
            return f"its {name} is not the one that the agreement states."
    if counts:
        edges = value_edges()
        same = query.arrays["edges"].shape == edges.shape and np.allclose(query.arrays["edges"], edges, rtol=ALIKE)
        return None if same else "its bins are not those of every private study."
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


def _sample_objection(agreement: Agreement, query: Query) -> str | None:
    """Refuse another sample than the agreed one: the difference of two samples could be a sum over a few rows."""
    if not query.sample:
        return SAMPLE_FIRST if agreement.sample and query.name == GRAM else None
    if not agreement.sample:
        return "the study that the owner approved has no sample of the rows."
    if (query.sample, query.scalars[DEAL]) != (agreement.sample, agreement.fit.get("seed")):
        return "its sample of the rows is not the one that the owner approved."
    return None if query.name in OF_A_SAMPLE else "only products and the covariance are asked of a sample."


def _between_objection(agreement: Agreement, query: Query) -> str | None:
    """Refuse sums of squares over three masked sites: each site would learn the sum and squares of the other two."""
    if query.name not in ABOUT_SITES or not agreement.masked or len(agreement.sites) >= BETWEEN_AT_LEAST:
        return None
    return "under masks what lies between sites is told of four sites or more: of three, each would know the others'."


def _units_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Refuse to compare units with other joint figures than before: many counts of sites are a bisection."""
    before = kept.get(UNITS, ())
    if (
        query.name != "odd_units"
        or len(before) < most_frames(agreement)
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


def _gaps_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Refuse EM under masks, in a study without it, or for more rounds than it needs."""
    if query.name != GAP_MOMENTS:
        return None
    if agreement.masked:
        return "under masks, rounds of EM tell of the rows that lack values."
    if agreement.fit.get("missing") != "em":
        return "the study that the owner approved takes missing values at the mean."
    if int(kept.get(GAPS_ASKED, np.zeros(1))[0]) >= MOST_GAPS * most_frames(agreement):
        return f"EM for missing values takes {MOST_GAPS} rounds at most."
    return None


def _filling_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    """Refuse to fill missing values in twice: the difference would be of the rows whose fills differ."""
    if query.name not in (FILLED_ONCE, "gap_sites"):
        return None
    if agreement.fit.get("missing") != "em-once":
        return "the study that the owner approved does not fill missing values in once."
    before = kept.get(FILLS, ())
    if query.name != FILLED_ONCE or len(before) < most_frames(agreement):
        return None
    if any(_same_filling(query, known) for known in before):
        return None
    return "missing values were filled in by another Gaussian before, and a study has one."


def _filling(query: Query) -> Array:
    """Return what determines the fills, a row a feature: its loadings, σ², and whether it is filled in."""
    loadings = query.arrays["loadings"]
    return np.column_stack([loadings, np.broadcast_to(query.arrays["noise"], len(loadings)), query.arrays["features"]])


def _same_filling(query: Query, known: Array) -> bool:
    """Whether missing values are filled in by this Gaussian, up to rounding differences between machines."""
    asked = _filling(query)
    return asked.shape == known.shape and bool(np.all(np.abs(asked - known) <= SAME * np.abs(known).max(axis=0)))


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


def _frame_objection(agreement: Agreement, query: Query, kept: Kept) -> str | None:
    frames = most_frames(agreement)
    if query.name == GAP_MOMENTS:
        return None
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
