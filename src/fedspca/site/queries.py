"""The closed list of questions that a site can be asked.

Each question is a pure function (data, state, query) -> (state, terms). Terms are all that a site reveals, and each
is a term of a sum over the sites. The list says in words what each question releases. The functions are in
:mod:`fedspca.site.answers`, grouped by what they are about.

What may never change:

- The list is closed: a site answers nothing that is not in it, and a coordinator cannot add to it.
- A name keeps its meaning. Owners approve questions by name, so another answer needs another name.
- Names and shapes of the terms follow from the question alone, never from the rows: a shape must disclose nothing.
- Every array of an answer is to be summed over the sites. None is an identifier, an extreme or a row.
- An answer by fold is the same answer once for each fold of the rows; summed over the folds it is the answer itself.
  With noise, a row's fold does not depend on other rows, and each fold has the noise of a whole answer.
- A question with noise has a ``cost``, and takes its random bits from the operating system. A question without
  noise has no ``cost``.
"""

from collections.abc import Mapping
from dataclasses import replace

from fedspca.site.answers import combat, covariates, gaps, moments, noised, products, steps
from fedspca.site.question import Question, Shape

PRECISIONS = frozenset({"float64", "float32"})
FRAME: Mapping[str, Shape] = {"mean": ("d",), "scale": ("d",), "removed": ("d", "q")}
ADJUSTMENT: Mapping[str, Shape] = {"covariate_mean": ("p",), "coefficients": ("p", "d")}
REFERENCE: Mapping[str, Shape] = {"reference_mean": ("d",), "reference_spread": ("d",)}
MAPS: Mapping[str, Shape] = {"knots": ("t", "d"), "images": ("t", "d"), "count_shares": ("d",), "clip": ("one",)}
SEEN: Mapping[str, Shape] = {**ADJUSTMENT, **REFERENCE}
STATED: Mapping[str, Shape] = {"centre": ("d",), "scale": ("d",)}
NOISE: Mapping[str, type | frozenset[str]] = {"sigma": float, "grid": int, "among": int}
CLIPPED: Mapping[str, type | frozenset[str]] = {**NOISE, "clip": float}
CONSENSUS_OPTIONAL: Mapping[str, Shape] = {**FRAME, **SEEN, "start": ("d", "r")}
CONSENSUS_TERMS: Mapping[str, Shape] = {
    "consensus": ("d", "r"),
    "gap": (),
    "norms": ("r",),
    "dual": (),
    "variance": (),
    "smooth": ("r",),
}
CONSENSUS_SCALARS: Mapping[str, type | frozenset[str]] = {
    "iteration": int,
    "rho": float,
    "seed": int,
    "deflation": frozenset({"orthogonal", "generalized", "literal"}),
}


_QUERIES: Mapping[str, Question] = {
    "moments": Question(
        moments.moments,
        "the number of rows, and for each feature the count and the sum of its values",
        terms={"rows": (), "counts": ("d",), "sums": ("d",)},
        additive=True,
    ),
    "deviations": Question(
        moments.deviations,
        "for each feature the sum of deviations from the joint mean, and of their squares",
        terms={"offsets": ("d",), "squares": ("d",)},
        arrays={"mean": ("d",)},
        additive=True,
    ),
    "weighted_moments": Question(
        moments.weighted_moments,
        "the number of rows that count, the sum of their weights, and for each feature the weighted count and sum",
        terms={"rows": (), "weight": (), "used": (), "weights": ("d",), "sums": ("d",)},
    ),
    "covariate_sums": Question(
        covariates.covariate_sums,
        "for each covariate its sum, and at how many sites it varies",
        terms={"sums": ("p",), "varying": ("p",)},
        arrays={"covariates": ("p",)},
    ),
    "covariate_moments": Question(
        covariates.covariate_moments,
        "the covariances (times n) of the covariates with each other and with every feature",
        terms={"inner": ("p", "p"), "cross": ("p", "d")},
        arrays={"mean": ("d",), "covariate_mean": ("p",)},
    ),
    "residuals": Question(
        covariates.residuals,
        "for each feature the sum, and the sum of squares, of what the covariates leave",
        terms={"offsets": ("d",), "squares": ("d",)},
        arrays={"mean": ("d",), **ADJUSTMENT},
    ),
    "within_moments": Question(
        combat.within_moments,
        "the covariances (times n) of the covariates with each other and with every feature, within sites",
        terms={"inner": ("p", "p"), "cross": ("p", "d")},
        arrays={"covariates": ("p",)},
    ),
    "within_squares": Question(
        combat.within_squares,
        "for each feature the sum of squares about the sites' own means, less what the covariates explain, and at how "
        "many sites it has one value",
        terms={"squares": ("d",), "constant": ("d",)},
        optional=ADJUSTMENT,
    ),
    "harmonised": Question(
        combat.harmonised,
        "for each feature the sum and the sum of squares of its values after the site's own shift and spread are taken "
        "out",
        terms={"offsets": ("d",), "squares": ("d",)},
        arrays={"mean": ("d",), **REFERENCE},
        optional=ADJUSTMENT,
    ),
    "covariates_between": Question(
        covariates.covariates_between,
        "the covariances (times n) of the covariates with each other, and how much of them lies between the sites",
        terms={"inner": ("p", "p"), "between": ("p", "p")},
        arrays={"covariate_mean": ("p",)},
    ),
    "gap_moments": Question(
        gaps.gap_moments,
        "the mean and the whole covariance (times n) with missing values as the Gaussian so far expects them, again in "
        "every round: the differences between rounds tell of the rows that have missing values",
        terms={"sums": ("d",), "gram": ("packed",)},
        arrays={"mean": ("d",), "scale": ("d",), "loadings": ("d", "q"), "noise": ("one",)},
    ),
    "gap_sites": Question(
        gaps.gap_sites,
        "for each feature at how many sites enough rows lack it to be told of together",
        terms={"sites": ("d",)},
    ),
    "filled_once": Question(
        gaps.filled_once,
        "the mean and the whole covariance (times n) with missing values filled in, once, from the other values of "
        "their rows: beside the covariance without them, it tells of the rows with missing values together, and of "
        "none alone",
        terms={"sums": ("d",), "filled": ("packed",)},
        arrays={"mean": ("d",), "scale": ("d",), "loadings": ("d", "q"), "noise": ("one",), "features": ("d",)},
    ),
    "counts_below": Question(
        moments.counts_below,
        "for each feature how many values are not above each of up to 128 edges, also where it is only one",
        terms={"below": ("k", "d")},
        arrays={"edges": ("k", "d")},
    ),
    "between_sites": Question(
        moments.between_sites,
        "for each feature what lies between the sites' means and within the sites, as sums over all sites",
        terms={"sums": ("d",), "between": ("d",), "within": ("d",), "left": ("d",)},
        arrays=FRAME,
        optional=SEEN,
    ),
    "odd_units": Question(
        moments.odd_units,
        "for each feature at how many sites its mean and its spread are several times larger or smaller than at the "
        "others: its unit may be wrong there",
        terms={"odd": ("d",)},
        arrays={"counts": ("d",), "mean": ("d",), "spread": ("d",)},
    ),
    "gram_product": Question(
        products.gram_product,
        "the covariance (times n) applied to the directions asked, d numbers a direction",
        terms={"product": ("d", "m")},
        arrays={**FRAME, "directions": ("d", "m")},
        optional=SEEN,
        scalars={"precision": PRECISIONS},
        additive=True,
    ),
    "gram_sketch": Question(
        products.gram_sketch,
        "the covariance (times n) applied to random directions, d numbers a direction",
        terms={"product": ("d", "m")},
        arrays=FRAME,
        optional=SEEN,
        scalars={"seed": int, "columns": int, "precision": PRECISIONS},
        additive=True,
    ),
    "gram": Question(
        products.gram,
        "the whole covariance (times n), d(d + 1)/2 numbers: as much as d rounds of products would release",
        terms={"gram": ("packed",)},
        arrays=FRAME,
        optional=SEEN,
        scalars={"precision": PRECISIONS},
        additive=True,
    ),
    "permuted_gram": Question(
        products.permuted_gram,
        "the covariance (times n) after each feature's values were permuted at this site, d(d + 1)/2 numbers each "
        "time: what unrelated features would give, to count the components that are more than chance",
        terms={"permuted": ("permutations", "packed")},
        arrays=FRAME,
        scalars={"seed": int, "first": int, "permutations": int, "precision": PRECISIONS},
    ),
    "captured_variance": Question(
        products.captured_variance,
        "the covariances (times n) between the scores on the directions asked, r × r numbers",
        terms={"captured": ("r", "r")},
        arrays={**FRAME, "directions": ("d", "r")},
        optional=SEEN,
        additive=True,
    ),
    "row_errors": Question(
        products.row_errors,
        "the sum of the rows' squared reconstruction errors and of their squares, two numbers",
        terms={"errors": (), "squares": ()},
        arrays={**FRAME, "directions": ("d", "r")},
        optional=SEEN,
        orthonormal=True,
    ),
    "curvature": Question(
        products.curvature,
        "a high power of the largest eigenvalue of the covariance (times n), one number",
        terms={"curvature": ()},
        arrays=FRAME,
        optional=SEEN,
        scalars={"reference": float},
    ),
    "faspca_step": Question(
        steps.faspca_step,
        "the local loadings plus the scaled dual variable, d × r numbers, and a few norms",
        terms=CONSENSUS_TERMS,
        arrays={"z": ("d", "r")},
        optional=CONSENSUS_OPTIONAL,
        scalars=CONSENSUS_SCALARS,
        averaged=True,
    ),
    "fsspca_step": Question(
        steps.fsspca_step,
        "the local loadings plus the scaled dual variable, d × r numbers, and a few norms",
        terms=CONSENSUS_TERMS,
        arrays={"z": ("d", "r"), "lam1": ("r",)},
        optional=CONSENSUS_OPTIONAL,
        scalars={
            **CONSENSUS_SCALARS,
            "mu": float,
            "steps": int,
            "tol": float,
            "search": frozenset({"armijo", "wolfe"}),
            "retraction": frozenset({"qr", "polar"}),
            "begin": frozenset({"last", "random"}),
            "direction": frozenset({"steepest", "conjugate", "newton"}),
        },
        averaged=True,
    ),
    "private_gram": Question(
        noised.private_gram,
        "the covariance, mean and number of rows together, with noise that hides any one row",
        terms={"gram": ("triangle",)},
        arrays=STATED,
        scalars={**CLIPPED, "offset": float},
        # a row is in one fold: the folds together change by no more than one matrix would
        cost=lambda d, query: noised.noise_cost(
            query, max(query.folds, 1) * (d + 1) * (d + 2) // 2, noised.augmented_squares(query)
        ),
        divides=True,
    ),
    "private_moments": Question(
        noised.private_moments,
        "for each feature the sum and the sum of squares, and the number of rows, with noise that hides any one row",
        terms={"moments": ("moments",)},
        arrays=STATED,
        scalars={**CLIPPED, "offset": float},
        cost=lambda d, query: noised.noise_cost(query, 2 * d + 1, noised.augmented_squares(query)),
    ),
    "private_product": Question(
        noised.private_product,
        "the covariance (times n) applied to the directions asked, with noise that hides any one row",
        terms={"product": ("d", "m")},
        arrays={**STATED, "directions": ("d", "m")},
        scalars=CLIPPED,
        cost=lambda _, query: noised.product_cost(query, query.arrays["directions"]),
        orthonormal=True,
    ),
    "private_lengths": Question(
        noised.private_lengths,
        "how many rows lie how far from the stated centre, with noise that hides any one row",
        terms={"counts": ("k",)},
        arrays={**STATED, "edges": ("k",)},
        scalars=NOISE,
        cost=lambda _, query: noised.noise_cost(query, len(query.arrays["edges"]), 1.0),
    ),
    "private_counts": Question(
        noised.private_counts,
        "for each feature how many values lie in each of 49 stated bins, with noise that hides any one row",
        terms={"counts": ("k", "d")},
        arrays={**STATED, "edges": ("k",)},
        scalars=NOISE,
        # a row adds one to a bin of each feature
        cost=lambda d, query: noised.noise_cost(query, len(query.arrays["edges"]) * d, d**0.5),
    ),
}
COUNTS = frozenset({"counts_below", "private_counts"})  # what transforms are made of
# every question about rows can be asked about transformed rows; the counts that the transform is made of cannot
QUERIES: Mapping[str, Question] = {
    name: question if name in COUNTS else replace(question, optional={**question.optional, **MAPS})
    for name, question in _QUERIES.items()
}
PRIVATE = frozenset(name for name, question in QUERIES.items() if question.private)
ADDITIVE = frozenset(name for name, question in QUERIES.items() if question.additive)
AVERAGED = frozenset(name for name, question in QUERIES.items() if question.averaged)
