"""The closed list of questions that a site can be asked.

Each question is a pure function (data, state, query) -> (state, terms). Terms are all that a site reveals, and each
is a term of a sum over the sites. The list says in words what each question releases.

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
from typing import Any, cast
from weakref import WeakValueDictionary
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from fedspca.dp.accounting import Cost
from fedspca.dp.noise import (
    augmented_grams,
    clipped_product,
    cost,
    first_moments,
    length_counts,
    noised,
    packed,
    value_counts,
)
from fedspca.linalg.beside import Adjustment, Beside, Reference
from fedspca.linalg.gaps import GapModel
from fedspca.linalg.line_search import LineSearch
from fedspca.linalg.operators import (
    COLUMNS_OF_CONSENSUS,
    DeflatedRows,
    Frame,
    RemoteRows,
    Sums,
    column_sums,
    covariate_products,
    dense_parts,
    deviations_from,
    missing_counts,
    total,
)
from fedspca.linalg.profile import Profile
from fedspca.linalg.shrinkage import smooth_norms
from fedspca.linalg.single import in_single
from fedspca.linalg.stiefel import Retraction, polar_factor, project_out
from fedspca.linalg.symmetric import pack
from fedspca.linalg.units import unit_factors
from fedspca.site.consensus import (
    ConsensusState,
    begin,
    consensus_terms,
    dual_step,
    faspca_update,
    fsspca_update,
    restarted,
)
from fedspca.site.descent import Descent, Direction, ReconstructionProblem
from fedspca.site.disclosure import told_together
from fedspca.site.errors import InvalidQuery
from fedspca.site.question import DEAL, Query, Question, Shape, SiteData, State, Terms

Array = NDArray[np.float64]

_DRAWN: WeakValueDictionary[tuple[int, tuple[int, int]], Array] = WeakValueDictionary()
CURVATURE_POWER = 16  # the power mean of the sites' curvatures is within K^(1/16) of their maximum


def _frame(query: Query) -> Frame:
    arrays = query.arrays
    return Frame(arrays["mean"], arrays["scale"], arrays["removed"], _adjustment(query), _reference(query))


def _reference(query: Query) -> Reference | None:
    if "reference_mean" not in query.arrays:
        return None
    return Reference(query.arrays["reference_mean"], query.arrays["reference_spread"])


def _adjustment(query: Query) -> Adjustment | None:
    if "coefficients" not in query.arrays:
        return None
    return Adjustment(query.arrays["covariate_mean"], query.arrays["coefficients"])


def _about(data: SiteData, query: Query) -> tuple[Frame, Array]:
    """Return the frame of the raw rows for a question that names only means, and the site's own spread."""
    mean = query.arrays["mean"]
    frame = Frame(mean, np.ones(len(mean)), np.zeros((len(mean), 0)), _adjustment(query), _reference(query))
    return data.raw(frame), np.ones(len(mean)) if data.own is None else data.own.scale


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
    return state, _deviations(data, query)


def residuals(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σe and Σe² by feature, where e = x − μ − (c − γ)B is the residual after the covariates."""
    return state, _deviations(data, query)


def _deviations(data: SiteData, query: Query) -> Terms:
    frame, spread = _about(data, query)
    offsets, squares = data.deviations_from(frame.mean, frame.adjustment)
    if data.own is not None:  # rounding errors of a feature that is constant at this site are no variance
        dust = (2 * np.finfo(float).eps * np.abs(data.own.mean)) ** 2 * data.beside.ones(data.rows.shape[0]).sum()
        squares = np.where(squares <= dust, 0.0, squares)
    return {"offsets": offsets / spread, "squares": squares / spread**2}


def covariate_sums(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σc by covariate, and 1 if it varies at this site, else 0, so that the sum counts sites."""
    covariates = _covariates(data, query)
    varying = np.ptp(covariates, axis=0) > 0
    return state, {"sums": data.beside.weighted(covariates).sum(axis=0), "varying": varying.astype(np.float64)}


def covariate_moments(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """(C − γ)ᵀ(C − γ) and (C − γ)ᵀ(X − μ), about the means of all sites."""
    _covariates(data, query)
    frame, spread = _about(data, query)
    about = query.arrays["covariate_mean"]
    inner, cross = covariate_products(data.rows, frame.mean, about, missing=data.missing, beside=data.beside)
    return state, {"inner": inner, "cross": cross / spread}


def within_moments(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """(C − c̄)ᵀ(C − c̄) and (C − c̄)ᵀ(X − x̄), about this site's own means."""
    covariates = _covariates(data, query)
    inner, cross = covariate_products(
        data.rows, _own_mean(data), covariates.mean(axis=0), missing=False, beside=data.beside
    )
    return state, {"inner": inner, "cross": cross}


def within_squares(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σe² by feature, where e = x − x̄ − (c − c̄)B about this site's own means, and 1 if it has one value here."""
    mean, adjustment = _own_mean(data), _adjustment(query)
    if adjustment is not None:
        adjustment = Adjustment(_covariates(data, query).mean(axis=0), adjustment.coefficients)
    offsets, squares = deviations_from(data.rows, mean, beside=data.beside, adjustment=adjustment)
    squares = np.maximum(squares - offsets**2 / data.rows.shape[0], 0.0)
    flat = squares <= data.rows.shape[0] * (2 * np.finfo(float).eps * np.abs(mean)) ** 2
    return state, {"squares": squares, "constant": flat.astype(np.float64)}


def _own_mean(data: SiteData) -> Array:
    """Return the mean of this site's rows, with the rounding error of the sum removed."""
    n = data.rows.shape[0]
    mean = column_sums(data.rows) / n
    return np.asarray(mean + deviations_from(data.rows, mean)[0] / n)


def harmonised(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σ(x − μ) and Σ(x − μ)² by feature, of rows whose site effect is taken out (ComBat)."""
    frame, _ = _about(data, query)
    offsets, squares = deviations_from(data.rows, frame.mean, beside=data.beside, adjustment=frame.adjustment)
    return state, {"offsets": offsets / frame.scale, "squares": squares / frame.scale**2}


def gap_moments(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """ΣE[a] and ΣE[aaᵀ] of standardised rows, missing values as a Gaussian expects them: one step of EM."""
    arrays = query.arrays
    model = GapModel(arrays["mean"], arrays["scale"], arrays["loadings"], arrays["noise"])
    sums, gram = model.moments(data.rows)
    return state, {"sums": sums, "gram": np.asarray(pack(gram), dtype=np.float64)}


def gap_sites(data: SiteData, state: State, _query: Query) -> tuple[State, Terms]:
    """1 for each feature that enough rows of this site lack to be told of together, else 0: the sum counts sites."""
    _, least = data.few
    lacking = missing_counts(data.rows) if data.missing else np.zeros(data.rows.shape[1])
    return state, {"sites": ((lacking >= least) | (least <= 1)).astype(np.float64)}


def filled_once(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σa and Σaaᵀ of standardised rows, missing values of some features as a Gaussian expects them.

    Missing values count as the mean where sums with them would be mostly about one row.
    """
    if isinstance(data.rows, RemoteRows) and not data.rows.in_order:
        raise InvalidQuery(data.site, query.name, "rows on a Dask cluster are not filled in.")
    arrays, (min_rows, least) = query.arrays, data.few
    model = GapModel(arrays["mean"], arrays["scale"], arrays["loadings"], arrays["noise"])
    asked = arrays["features"] > 0
    rows, features = told_together(model.fills(data.rows, asked), min_rows=min_rows, least=least)
    sums, gram = model.moments(data.rows, (rows, features & asked))
    return state, {"sums": sums, "filled": np.asarray(pack(gram), dtype=np.float64)}


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


def _covariates(data: SiteData, query: Query) -> Array:
    """Return the site's covariates, if it has as many as the question is about."""
    asked, found = query.arrays.get("covariate_mean", query.arrays.get("covariates")), data.beside.covariates
    if found is None or asked is None or found.shape[1] != len(asked):
        here = 0 if found is None else found.shape[1]
        raise InvalidQuery(
            data.site, query.name, f"the site has {here} column(s) of covariates, and not as many as that."
        )
    return found


def between_sites(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σx, (Σx)²/n and Σ(x − x̄)² of this site about the joint mean, and (Σa)²/n of what is analysed, by feature.

    Summed over the sites, they give the variance between the sites' means, before and after the adjustment.
    """
    joint = query.arrays["mean"] if data.own is None else np.zeros(data.rows.shape[1])
    n = data.beside.ones(data.rows.shape[0]).sum()
    sums, squares = deviations_from(data.rows, joint, missing=data.missing, beside=data.beside)
    left = data.standardised_in(_frame(query)).row_sums()
    return state, {
        "sums": sums,
        "between": sums**2 / n,
        "within": np.maximum(squares - sums**2 / n, 0.0),
        "left": left**2 / n,
    }


def covariates_between(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """(C − γ)ᵀ(C − γ), and the part of it that lies between the sites' means: (Σc)(Σc)ᵀ/n of this site, about γ."""
    covariates, mean = _covariates(data, query), query.arrays["covariate_mean"]

    def of(block: Any, part: Beside) -> Sums:
        about = block - mean
        weighted = part.weighted(about)
        return weighted.T @ about, weighted.sum(axis=0)

    inner, sums = total(covariates, data.beside.along(of))
    return state, {"inner": inner, "between": np.outer(sums, sums) / data.beside.ones(len(covariates)).sum()}


def odd_units(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """For each feature, 1 if its unit looks wrong at this site beside the other sites, else 0: the sum counts sites."""
    if not data.preparation.plain:
        raise InvalidQuery(
            data.site, query.name, "rows with covariates, weights or a mean of their own are not compared."
        )
    own, joint = Profile.of(data.rows), Profile.of_sums(*(query.arrays[name] for name in ("counts", "mean", "spread")))
    return state, {"odd": (unit_factors(own, joint.without(own)) != 1).astype(np.float64)}


def gram_product(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀAQ for the directions Q that were asked, rounded to single precision where the question says so."""
    product = _seen(data, query).gram_product(asked_directions(query))
    return state, {"product": product.astype(str(query.scalars["precision"]), copy=False)}


def gram_sketch(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀAΩ for random directions Ω, of which only the seed is sent."""
    product = _seen(data, query).gram_product(asked_directions(query))
    return state, {"product": product.astype(str(query.scalars["precision"]), copy=False)}


def _seen(data: SiteData, query: Query) -> DeflatedRows:
    """Return the rows as an operator. Single precision is asked: then rows that are stored so are multiplied so."""
    rows = data.seen_in(_frame(query))
    return in_single(rows) if query.scalars["precision"] == "float32" else rows


def asked_directions(query: Query) -> Array:
    """Return the directions that a question asks about: those it contains, or those drawn from its seed."""
    if "directions" in query.arrays:
        return query.arrays["directions"]
    return random_directions(int(query.scalars["seed"]), (len(query.arrays["mean"]), int(query.scalars["columns"])))


def gram(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀA itself, its upper triangle packed."""
    matrix = _seen(data, query).gram_matrix()
    return state, {"gram": pack(matrix).astype(str(query.scalars["precision"]), copy=False)}


def permuted_gram(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀA after each column is permuted independently, several times: the covariance of unrelated features."""
    if not data.preparation.plain:
        raise InvalidQuery(
            data.site, query.name, "rows with covariates, weights or a mean of their own are not permuted."
        )
    first, count = int(query.scalars["first"]), int(query.scalars["permutations"])
    rows = data.standardised_in(_frame(query))
    seed = [int(query.scalars["seed"]), crc32(data.site.encode())]
    grams = [pack(rows.permuted_gram_matrix([*seed, first + at])) for at in range(count)]
    return state, {"permuted": np.stack(grams).astype(str(query.scalars["precision"]), copy=False)}


def random_directions(seed: int, shape: tuple[int, int]) -> Array:
    """Draw the directions of a seed, in the same way here and at the sites.

    They are not orthonormalised: the generator gives the same numbers on every machine, but a QR's last digits differ.
    Sites in one process share the directions while they are in use: drawing costs as much as a pass over the rows.
    """
    drawn = _DRAWN.get((seed, shape))
    if drawn is None:
        drawn = np.random.default_rng(seed).standard_normal(shape)
        drawn.flags.writeable = False
        _DRAWN[seed, shape] = drawn
    return drawn


def captured_variance(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """QᵀAᵀAQ, r × r: all that explained variance and reconstruction error need."""
    directions = query.arrays["directions"]
    return state, {"captured": directions.T @ data.seen_in(_frame(query)).gram_product(directions)}


def row_errors(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σe and Σe² of the rows' squared reconstruction errors e = ‖a − aQQᵀ‖²: what a threshold for anomalies needs.

    Q is orthonormalised again here, to remove rounding errors, so that QQᵀ is a projection.
    """
    basis = np.linalg.qr(query.arrays["directions"])[0]
    errors, squares = data.standardised_in(_frame(query)).error_sums(basis)
    return state, {"errors": np.array(errors), "squares": np.array(squares)}


def curvature(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """(σ_max(A)²/reference)¹⁶, whose sum gives a power mean: about the largest curvature, and no site's own."""
    relative = data.seen_in(_frame(query)).largest_eigenvalue() / float(query.scalars["reference"])
    return state, {"curvature": np.array(relative**CURVATURE_POWER)}


def faspca_step(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """One consensus round of FASPCA (Algorithms 6 and 7, and their block form)."""
    z, rho = query.arrays["z"], float(query.scalars["rho"])
    before = dual_step(_consensus_state(data, state, query), z)
    rows = data.seen_in(before.frame, COLUMNS_OF_CONSENSUS)
    after = faspca_update(rows, before, z, rho, query.scalars["deflation"] == "orthogonal")
    after = after._replace(iteration=before.iteration + 1, rho=rho)
    return after, consensus_terms(after, z, rho, lambda w: np.zeros(w.shape[1]))


def fsspca_step(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """One consensus round of FSSPCA (Algorithms 1 and 3, on the generalised manifold after the first stage)."""
    z, rho, mu = query.arrays["z"], float(query.scalars["rho"]), float(query.scalars["mu"])
    before = dual_step(_consensus_state(data, state, query), z)
    rows = data.seen_in(before.frame, COLUMNS_OF_CONSENSUS)
    if query.scalars["begin"] == "random" and before.iteration:
        before = restarted(rows, before, random_point(data.site, before.frame, query, before.iteration))
    how = Descent(
        steps=int(query.scalars["steps"]),
        tol=float(query.scalars["tol"]),
        search=cast("LineSearch", query.scalars["search"]),  # these words were checked with the question's form
        retraction=cast("Retraction", query.scalars["retraction"]),
        stay_in_complement=query.scalars["deflation"] == "orthogonal",
        direction=cast("Direction", query.scalars["direction"]),
    )
    orthonormal = not before.frame.removed.shape[1]
    problem = ReconstructionProblem(before.u, z, rho, query.arrays["lam1"], mu, orthonormal)
    after = fsspca_update(rows, before, problem, how)._replace(iteration=before.iteration + 1, rho=rho)
    return after, consensus_terms(after, z, rho, lambda w: smooth_norms(w, mu))


def _consensus_state(data: SiteData, state: State, query: Query) -> ConsensusState:
    """The site's state at the start of this round: new in round 0, else that of the last round."""
    iteration = int(query.scalars["iteration"])
    if iteration == 0:
        missing = {"mean", "scale", "removed"} - set(query.arrays)
        if missing:
            raise InvalidQuery(data.site, query.name, f"round 0 must bring {', '.join(sorted(missing))}.")
        frame = _frame(query)
        return begin(data.seen_in(frame, COLUMNS_OF_CONSENSUS), frame, starting_point(data.site, frame, query))
    if state is None or state.iteration != iteration or state.w.shape != query.arrays["z"].shape:
        here = "nothing" if state is None else f"round {state.iteration} with {state.w.shape[1]} loading(s)"
        reason = f"round {iteration} was asked and the site expects {here}; begin again from round 0."
        raise InvalidQuery(data.site, query.name, reason)
    return state


def starting_point(site: str, frame: Frame, query: Query) -> Array:
    """Start at the common point if one is given, else at a random point of the site's own, as in the paper."""
    if "start" in query.arrays:
        return query.arrays["start"]
    return random_point(site, frame, query)


def random_point(site: str, frame: Frame, query: Query, *rounds: int) -> Array:
    """Draw a random point of the manifold for this site, and for this round if a round is given."""
    # seeded by the site's name as well: independent between sites, and the same whatever their order
    rng = np.random.default_rng([int(query.scalars["seed"]), crc32(site.encode()), *rounds])
    return polar_factor(project_out(frame.removed, rng.standard_normal(query.arrays["z"].shape)), frame.removed)


def private_gram(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σ(a, b)(a, b)ᵀ over clipped rows, packed, with noise; for each fold, if it is asked by fold."""
    dealt = (query.folds, int(query.scalars[DEAL])) if query.folds else (1, 0)
    grams = augmented_grams(data.rows, *_stated(query), _number(query, "offset"), *dealt)
    vectors = np.stack([packed(gram) for gram in grams])
    return state, {"gram": _noised(data, query, vectors if query.folds else vectors[0])}


def private_moments(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Σa², √2bΣa and b²n over clipped rows, with noise."""
    sums = first_moments(data.rows, *_stated(query), _number(query, "offset"))
    return state, {"moments": _noised(data, query, sums)}


def private_product(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """AᵀAQ over clipped rows, with noise."""
    product = clipped_product(data.rows, *_stated(query), query.arrays["directions"])
    return state, {"product": _noised(data, query, product)}


def private_lengths(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Rows counted by length, with noise."""
    arrays = query.arrays
    counts = length_counts(data.rows, arrays["centre"], arrays["scale"], arrays["edges"])
    return state, {"counts": _noised(data, query, counts)}


def private_counts(data: SiteData, state: State, query: Query) -> tuple[State, Terms]:
    """Values of each feature counted in stated bins, with noise."""
    arrays = query.arrays
    counts = value_counts(data.rows, arrays["centre"], arrays["scale"], arrays["edges"])
    return state, {"counts": _noised(data, query, counts)}


def _stated(query: Query) -> tuple[Array, Array, float]:
    return query.arrays["centre"], query.arrays["scale"], _number(query, "clip")


def _number(query: Query, name: str) -> float:
    return float(query.scalars[name])


def _noised(data: SiteData, query: Query, values: Array) -> Array:
    """Add this site's part of the noise. Each site adds its own part, and the variances add up."""
    try:
        return noised(values, _number(query, "sigma") / _number(query, "among") ** 0.5, int(query.scalars["grid"]))
    except (ValueError, ArithmeticError) as error:
        raise InvalidQuery(data.site, query.name, f"{error}.") from None


def _cost(query: Query, entries: int, sensitivity: float) -> Cost:
    return cost(entries, sensitivity, _number(query, "sigma"), int(query.scalars["grid"]), int(query.scalars["among"]))


def _product_cost(query: Query, directions: Array) -> Cost:
    """One row a changes AᵀAQ by a(aᵀQ), whose norm is at most ‖a‖²‖Q‖."""
    return _cost(query, directions.size, _number(query, "clip") ** 2 * float(np.linalg.norm(directions, 2)))


def _squares(query: Query) -> float:
    """C² + b²: how far one row moves the augmented Gram matrix."""
    return _number(query, "clip") ** 2 + _number(query, "offset") ** 2


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
        moments,
        "the number of rows, and for each feature the count and the sum of its values",
        terms={"rows": (), "counts": ("d",), "sums": ("d",)},
        additive=True,
    ),
    "deviations": Question(
        deviations,
        "for each feature the sum of deviations from the joint mean, and of their squares",
        terms={"offsets": ("d",), "squares": ("d",)},
        arrays={"mean": ("d",)},
        additive=True,
    ),
    "weighted_moments": Question(
        weighted_moments,
        "the number of rows that count, the sum of their weights, and for each feature the weighted count and sum",
        terms={"rows": (), "weight": (), "used": (), "weights": ("d",), "sums": ("d",)},
    ),
    "covariate_sums": Question(
        covariate_sums,
        "for each covariate its sum, and at how many sites it varies",
        terms={"sums": ("p",), "varying": ("p",)},
        arrays={"covariates": ("p",)},
    ),
    "covariate_moments": Question(
        covariate_moments,
        "the covariances (times n) of the covariates with each other and with every feature",
        terms={"inner": ("p", "p"), "cross": ("p", "d")},
        arrays={"mean": ("d",), "covariate_mean": ("p",)},
    ),
    "residuals": Question(
        residuals,
        "for each feature the sum, and the sum of squares, of what the covariates leave",
        terms={"offsets": ("d",), "squares": ("d",)},
        arrays={"mean": ("d",), **ADJUSTMENT},
    ),
    "within_moments": Question(
        within_moments,
        "the covariances (times n) of the covariates with each other and with every feature, within sites",
        terms={"inner": ("p", "p"), "cross": ("p", "d")},
        arrays={"covariates": ("p",)},
    ),
    "within_squares": Question(
        within_squares,
        "for each feature the sum of squares about the sites' own means, less what the covariates explain, and at how "
        "many sites it has one value",
        terms={"squares": ("d",), "constant": ("d",)},
        optional=ADJUSTMENT,
    ),
    "harmonised": Question(
        harmonised,
        "for each feature the sum and the sum of squares of its values after the site's own shift and spread are taken "
        "out",
        terms={"offsets": ("d",), "squares": ("d",)},
        arrays={"mean": ("d",), **REFERENCE},
        optional=ADJUSTMENT,
    ),
    "covariates_between": Question(
        covariates_between,
        "the covariances (times n) of the covariates with each other, and how much of them lies between the sites",
        terms={"inner": ("p", "p"), "between": ("p", "p")},
        arrays={"covariate_mean": ("p",)},
    ),
    "gap_moments": Question(
        gap_moments,
        "the mean and the whole covariance (times n) with missing values as the Gaussian so far expects them, again in "
        "every round: the differences between rounds tell of the rows that have missing values",
        terms={"sums": ("d",), "gram": ("packed",)},
        arrays={"mean": ("d",), "scale": ("d",), "loadings": ("d", "q"), "noise": ("one",)},
    ),
    "gap_sites": Question(
        gap_sites,
        "for each feature at how many sites enough rows lack it to be told of together",
        terms={"sites": ("d",)},
    ),
    "filled_once": Question(
        filled_once,
        "the mean and the whole covariance (times n) with missing values filled in, once, from the other values of "
        "their rows: beside the covariance without them, it tells of the rows with missing values together, and of "
        "none alone",
        terms={"sums": ("d",), "filled": ("packed",)},
        arrays={"mean": ("d",), "scale": ("d",), "loadings": ("d", "q"), "noise": ("one",), "features": ("d",)},
    ),
    "counts_below": Question(
        counts_below,
        "for each feature how many values are not above each of up to 128 edges, also where it is only one",
        terms={"below": ("k", "d")},
        arrays={"edges": ("k", "d")},
    ),
    "between_sites": Question(
        between_sites,
        "for each feature what lies between the sites' means and within the sites, as sums over all sites",
        terms={"sums": ("d",), "between": ("d",), "within": ("d",), "left": ("d",)},
        arrays=FRAME,
        optional=SEEN,
    ),
    "odd_units": Question(
        odd_units,
        "for each feature at how many sites its mean and its spread are several times larger or smaller than at the "
        "others: its unit may be wrong there",
        terms={"odd": ("d",)},
        arrays={"counts": ("d",), "mean": ("d",), "spread": ("d",)},
    ),
    "gram_product": Question(
        gram_product,
        "the covariance (times n) applied to the directions asked, d numbers a direction",
        terms={"product": ("d", "m")},
        arrays={**FRAME, "directions": ("d", "m")},
        optional=SEEN,
        scalars={"precision": PRECISIONS},
        additive=True,
    ),
    "gram_sketch": Question(
        gram_sketch,
        "the covariance (times n) applied to random directions, d numbers a direction",
        terms={"product": ("d", "m")},
        arrays=FRAME,
        optional=SEEN,
        scalars={"seed": int, "columns": int, "precision": PRECISIONS},
        additive=True,
    ),
    "gram": Question(
        gram,
        "the whole covariance (times n), d(d + 1)/2 numbers: as much as d rounds of products would release",
        terms={"gram": ("packed",)},
        arrays=FRAME,
        optional=SEEN,
        scalars={"precision": PRECISIONS},
        additive=True,
    ),
    "permuted_gram": Question(
        permuted_gram,
        "the covariance (times n) after each feature's values were permuted at this site, d(d + 1)/2 numbers each "
        "time: what unrelated features would give, to count the components that are more than chance",
        terms={"permuted": ("permutations", "packed")},
        arrays=FRAME,
        scalars={"seed": int, "first": int, "permutations": int, "precision": PRECISIONS},
    ),
    "captured_variance": Question(
        captured_variance,
        "the covariances (times n) between the scores on the directions asked, r × r numbers",
        terms={"captured": ("r", "r")},
        arrays={**FRAME, "directions": ("d", "r")},
        optional=SEEN,
        additive=True,
    ),
    "row_errors": Question(
        row_errors,
        "the sum of the rows' squared reconstruction errors and of their squares, two numbers",
        terms={"errors": (), "squares": ()},
        arrays={**FRAME, "directions": ("d", "r")},
        optional=SEEN,
        orthonormal=True,
    ),
    "curvature": Question(
        curvature,
        "a high power of the largest eigenvalue of the covariance (times n), one number",
        terms={"curvature": ()},
        arrays=FRAME,
        optional=SEEN,
        scalars={"reference": float},
    ),
    "faspca_step": Question(
        faspca_step,
        "the local loadings plus the scaled dual variable, d × r numbers, and a few norms",
        terms=CONSENSUS_TERMS,
        arrays={"z": ("d", "r")},
        optional=CONSENSUS_OPTIONAL,
        scalars=CONSENSUS_SCALARS,
        averaged=True,
    ),
    "fsspca_step": Question(
        fsspca_step,
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
        private_gram,
        "the covariance, mean and number of rows together, with noise that hides any one row",
        terms={"gram": ("triangle",)},
        arrays=STATED,
        scalars={**CLIPPED, "offset": float},
        # a row is in one fold: the folds together change by no more than one matrix would
        cost=lambda d, query: _cost(query, max(query.folds, 1) * (d + 1) * (d + 2) // 2, _squares(query)),
        divides=True,
    ),
    "private_moments": Question(
        private_moments,
        "for each feature the sum and the sum of squares, and the number of rows, with noise that hides any one row",
        terms={"moments": ("moments",)},
        arrays=STATED,
        scalars={**CLIPPED, "offset": float},
        cost=lambda d, query: _cost(query, 2 * d + 1, _squares(query)),
    ),
    "private_product": Question(
        private_product,
        "the covariance (times n) applied to the directions asked, with noise that hides any one row",
        terms={"product": ("d", "m")},
        arrays={**STATED, "directions": ("d", "m")},
        scalars=CLIPPED,
        cost=lambda _, query: _product_cost(query, query.arrays["directions"]),
        orthonormal=True,
    ),
    "private_lengths": Question(
        private_lengths,
        "how many rows lie how far from the stated centre, with noise that hides any one row",
        terms={"counts": ("k",)},
        arrays={**STATED, "edges": ("k",)},
        scalars=NOISE,
        cost=lambda _, query: _cost(query, len(query.arrays["edges"]), 1.0),
    ),
    "private_counts": Question(
        private_counts,
        "for each feature how many values lie in each of 49 stated bins, with noise that hides any one row",
        terms={"counts": ("k", "d")},
        arrays={**STATED, "edges": ("k",)},
        scalars=NOISE,
        # a row adds one to a bin of each feature
        cost=lambda d, query: _cost(query, len(query.arrays["edges"]) * d, d**0.5),
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
