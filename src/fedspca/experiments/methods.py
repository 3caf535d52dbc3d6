"""The methods that the experiments compare, with the paper's settings or with ours, and the record of a fit."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fedspca.estimators import FASPCA, FSSPCA, ExactSPCA
from fedspca.estimators.base import FederatedSparsePCA
from fedspca.experiments.watch import SimulatedFederation
from fedspca.metrics import n_nonzeros
from fedspca.site.queries import AVERAGED
from fedspca.solvers.rounds import Round

Array = NDArray[np.float64]
Setting = Literal["paper", "ours"]
Method = TypeVar("Method", FASPCA, FSSPCA)

SETTINGS: tuple[Setting, Setting] = ("paper", "ours")
# per stage. The paper states no stopping rule; it reports 133 rounds of FSSPCA, and 315 of FASPCA in two stages
PAPER_ROUNDS: Mapping[type, int] = {FASPCA: 200, FSSPCA: 133}


def faspca(setting: Setting, seed: int, lam: Any, **further: Any) -> FASPCA:
    """FASPCA for two loadings: the paper's form, which finds one at a time, or our block form."""
    return _set(FASPCA, setting, {"lam": lam, "random_state": seed, **further})


def fsspca(setting: Setting, seed: int, lam1: float, lam2: float, **further: Any) -> FSSPCA:
    """FSSPCA for two loadings, with the paper's settings or ours."""
    return _set(FSSPCA, setting, {"lam1": lam1, "lam2": lam2, "random_state": seed, **further})


def _set(method: type[Method], setting: Setting, given: Mapping[str, Any]) -> Method:
    """Return a method for two loadings, with every choice of the paper or with our defaults."""
    return (
        method.paper(2, **{"max_rounds": PAPER_ROUNDS[method], **given}) if setting == "paper" else method(2, **given)
    )


def exact(_: Setting, seed: int, **further: Any) -> ExactSPCA:
    """ExactSPCA for two loadings, by products: the experiments compare rounds, and no other method asks for S."""
    return ExactSPCA(2, random_state=seed, search="products", **further)


def pca(rows: Array) -> Array:
    """Two dense leading components of the rows, which are neither centred nor scaled here (2 × d)."""
    return np.asarray(np.linalg.svd(rows, full_matrices=False)[2][:2])


METHODS: Mapping[str, Callable[..., FederatedSparsePCA]] = {"FASPCA": faspca, "FSSPCA": fsspca, "ExactSPCA": exact}


def model(
    method: str, setting: Setting, seed: int, penalties: Mapping[str, Any], rounds: int | None = None
) -> FederatedSparsePCA:
    """Return the method by name, with these penalties and, if given, a limit on rounds and on a site's steps."""
    limit = {} if rounds is None else {"max_rounds": rounds}
    if rounds is not None and method == "FSSPCA":
        limit["local_steps"] = rounds
    return METHODS[method](setting, seed, **{**penalties, **limit})


@dataclass(frozen=True)
class Fit:
    """The record of a fit.

    Attributes
    ----------
    components : ndarray of shape (2, d)
        The loadings.
    converged : bool
        Whether the fit reached its tolerance.
    rounds : int
        The number of sums, including those for the means and the start.
    nonzeros : int
        Non-zeros of the loadings.
    consensus_nonzeros : int or None
        Non-zeros of the consensus z before the final orthonormalisation, if the method has a consensus.
    bytes_up, bytes_down : int
        What each site sent and received.
    objectives : tuple of float
        The objective by consensus round.
    residuals : tuple of tuple of float
        For each stage, the larger of the primal and the dual residual by consensus round.
    alignments : tuple of ndarray
        For each loading, the alignment of workers by round, if it was recorded.
    seconds : float
        The processor time that the fit took: other programs on the machine do not count.
    """

    components: Array
    converged: bool
    rounds: int
    nonzeros: int
    consensus_nonzeros: int | None
    bytes_up: int
    bytes_down: int
    objectives: tuple[float, ...]
    residuals: tuple[tuple[float, ...], ...]
    alignments: tuple[Array, ...]
    seconds: float


def fit(model: FederatedSparsePCA, federation: SimulatedFederation) -> Fit:
    """Fit a model over sites in this process; a fit that does not converge is recorded, without a warning."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit_federation(federation)
    seconds = time.process_time() - began
    steps = [record for record in model.history_ if record.query in AVERAGED]
    last = {record.stage: int(record.nonzeros or 0) for record in steps}
    return Fit(
        components=model.components_,
        converged=bool(model.converged_),
        rounds=int(model.n_rounds_),
        nonzeros=n_nonzeros(model.components_),
        consensus_nonzeros=sum(last.values()) if steps else None,
        bytes_up=sum(record.bytes_up for record in model.history_),
        bytes_down=sum(record.bytes_down for record in model.history_),
        objectives=tuple(record.objective for record in steps if record.objective is not None),
        residuals=tuple(_residuals(steps, stage) for stage in last),
        alignments=_by_loading(federation.alignments, [record.stage for record in steps]),
        seconds=seconds,
    )


def _residuals(steps: Sequence[Round], stage: int) -> tuple[float, ...]:
    """The larger of the two residuals, by round of a stage."""
    return tuple(max(r.primal_residual or 0.0, r.dual_residual or 0.0) for r in steps if r.stage == stage)


def rounds_to(residuals: Sequence[Sequence[float]], tol: float) -> int | None:
    """The number of rounds after which a fit that stops at this tolerance would have stopped.

    None if a stage never reaches the tolerance. Later stages begin where the earlier ones ended, not where they would
    have been stopped.

    Examples
    --------
    >>> rounds_to([[0.5, 0.1, 0.01], [0.2, 0.1]], tol=0.1)
    4
    >>> rounds_to([[0.5, 0.1, 0.01], [0.2, 0.1]], tol=0.01) is None
    True
    """
    first = [next((count for count, r in enumerate(stage, start=1) if r <= tol), None) for stage in residuals]
    known = [count for count in first if count is not None]
    return sum(known) if len(known) == len(first) else None


def _by_loading(alignments: list[Array], stages: list[int]) -> tuple[Array, ...]:
    """Alignment by round, one curve for each loading; the loadings of the first stage come first."""
    curves: list[Array] = []
    for stage in sorted(set(stages)):
        rounds = [a for a, at in zip(alignments, stages, strict=False) if at == stage]
        curves.extend(np.stack(rounds).T if rounds else [])
    return tuple(curves)
