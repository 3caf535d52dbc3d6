"""From one site's plain messages to its covariance: why "only model updates are exchanged" is not privacy.

A reader of the queries knows zᵗ and ρ. A reader of one site's answers knows wᵗ⁺¹ + uᵗ/ρ. Before the first round u = 0,
so the first answer *is* w¹. Then u¹ = ρ(w¹ − z¹) is known, then w², and so on: the reader knows every w and u. They
satisfy equations that are linear in G = AᵀA. FASPCA's step is a polar factor, so 2Gwᵗ − uᵗ + ρzᵗ = wᵗ⁺¹H with a
symmetric H. FSSPCA ends its step where 2Gw = u + ρ(w − z) + λ1 ψ'(w) − wH. A product AᵀAQ is itself such an equation.
Each round adds about r·d equations, and G has d(d + 1)/2 unknowns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Aggregate, add_terms, check_same_features
from fedspca.linalg.operators import Frame
from fedspca.linalg.shrinkage import smooth_abs_gradient
from fedspca.site.answers.products import asked_directions
from fedspca.site.answers.steps import starting_point
from fedspca.site.queries import AVERAGED
from fedspca.site.question import Query, Terms
from fedspca.site.site import Site

Array = NDArray[np.float64]

SINGULAR = 1e-11  # relative cutoff of singular values: G is zero in directions that the equations do not determine


@dataclass
class Transcript:
    """A federation without masks in this process, with a record of the messages of one site.

    Parameters
    ----------
    sites : sequence of Site
        The sites that answer.
    target : str
        The site whose messages are read.
    """

    sites: Sequence[Site]
    target: str
    messages: list[tuple[Query, Terms]] = field(default_factory=list)

    @property
    def n_sites(self) -> int:
        """How many sites take part."""
        return len(self.sites)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that all sites share."""
        return check_same_features({site.name: site.feature_names for site in self.sites})

    def sum(self, query: Query) -> Aggregate:
        """Return the sum of all sites' terms, and record the term of the target."""
        answers = {site.name: site.answer(query) for site in self.sites}
        self.messages.append((query, answers[self.target]))
        return add_terms(answers, query)


class Equations(NamedTuple):
    """Linear equations in a symmetric matrix G: in each, the sum of ``left * (G @ right)`` is ``value``."""

    left: Array  # (m, d, r)
    right: Array  # (m, d, r)
    value: Array  # (m,)


def reconstruct(messages: Sequence[tuple[Query, Terms]], site: str, d: int) -> Array:
    """Argmin ‖G‖ over the symmetric G that best fit one site's answers. With enough answers, this is the site's AᵀA.

    Parameters
    ----------
    messages : sequence of (Query, Terms)
        The queries and the site's answers to them, in order.
    site : str
        The site's name. Together with the seed in the query, it determines a random start.
    d : int
        The number of features.
    """
    upper, lower = np.triu_indices(d)
    rows, values = [np.zeros((0, len(upper)))], [np.zeros(0)]
    for equations in _equations(messages, site):
        full = np.einsum("mjr,mkr->mjk", equations.left, equations.right)
        rows.append(full[:, upper, lower] + np.where(upper == lower, 0.0, full[:, lower, upper]))
        values.append(equations.value)
    system, known = np.vstack(rows), np.concatenate(values)
    weights = np.linalg.norm(system, axis=1)
    used = weights > 0
    # scale off-diagonal entries by √2, because each occurs twice: least squares then minimises the Frobenius norm
    twice = np.where(upper == lower, 1.0, np.sqrt(2.0))
    entries = np.linalg.lstsq(system[used] / weights[used, None] / twice, known[used] / weights[used], rcond=SINGULAR)[
        0
    ]
    gram = np.zeros((d, d))
    gram[upper, lower] = gram[lower, upper] = entries / twice
    return gram


def error_by_round(messages: Sequence[tuple[Query, Terms]], site: str, truth: Array) -> list[float]:
    """Relative error ‖Ĝ − G‖/‖G‖ of the reconstruction after each message that depends on G."""
    useful = [k for k, (query, _) in enumerate(messages) if query.name in (*AVERAGED, "gram_product", "gram_sketch")]
    size = float(np.linalg.norm(truth))
    return [float(np.linalg.norm(reconstruct(messages[: k + 1], site, len(truth)) - truth)) / size for k in useful]


def _equations(messages: Sequence[tuple[Query, Terms]], site: str) -> Iterator[Equations]:
    state: _Seen | None = None
    for query, terms in messages:
        if query.name in ("gram_product", "gram_sketch"):
            yield _of_product(asked_directions(query), terms["product"].astype(np.float64))
        elif query.name in AVERAGED:
            state, equations = _of_step(query, terms, state, site)
            yield from equations


def _of_product(directions: Array, product: Array) -> Equations:
    """G q = y, one equation for each entry of y."""
    d, columns = product.shape
    left = np.tile(np.eye(d)[:, :, None], (columns, 1, 1))
    right = np.repeat(directions.T[:, :, None], d, axis=0)
    return Equations(left, right, product.T.ravel())


class _Seen(NamedTuple):
    """What the reader has derived so far: the site's w and u, and the ρ with which w was found."""

    w: Array
    u: Array
    rho: float


def _of_step(query: Query, terms: Terms, before: _Seen | None, site: str) -> tuple[_Seen, list[Equations]]:
    """Derive the site's w and u after one consensus round, and the equations in G that the round gives."""
    z, rho = query.arrays["z"], float(query.scalars["rho"])
    if int(query.scalars["iteration"]) == 0 or before is None:
        frame = Frame(query.arrays["mean"], query.arrays["scale"], query.arrays["removed"])
        if frame.removed.shape[1]:
            raise ValueError("The attack reads the first stage of a fit; later ones show less of G.")
        before = _Seen(starting_point(site, frame, query), np.zeros_like(z), rho)
    else:
        before = before._replace(u=before.u + before.rho * (before.w - z))
    w = terms["consensus"] - before.u / rho
    if query.name == "faspca_step":
        fixed = _symmetric_multiple(w, before.w, before.u - rho * z)
    else:
        penalty = query.arrays["lam1"] * smooth_abs_gradient(w, float(query.scalars["mu"]))
        fixed = _symmetric_multiple(w, w, before.u + rho * (w - z) + penalty)
    captured = Equations(w[None], w[None], np.atleast_1d(terms["variance"]))
    return _Seen(w, before.u, rho), [fixed, captured]


def _symmetric_multiple(w: Array, x: Array, c: Array) -> Equations:
    """Equations in G from 2Gx − c = wH with an unknown symmetric H.

    H drops out of the part orthogonal to the span of w, and out of the antisymmetric part of wᵀ(2Gx − c).
    """
    d, r = w.shape
    off = np.linalg.qr(w, mode="complete")[0][:, r:]
    lefts, values = [], []
    for column in range(r):
        for direction in off.T:
            lefts.append(_at(direction, column, r))
            values.append(direction @ c[:, column] / 2)
        for other in range(column):
            lefts.append(_at(w[:, other], column, r) - _at(w[:, column], other, r))
            values.append((w[:, other] @ c[:, column] - w[:, column] @ c[:, other]) / 2)
    return Equations(np.array(lefts), np.broadcast_to(x, (len(lefts), d, r)), np.array(values))


def _at(direction: Array, column: int, r: int) -> Array:
    placed = np.zeros((len(direction), r))
    placed[:, column] = direction
    return placed
