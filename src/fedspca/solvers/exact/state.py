"""A fit of ExactSPCA between two rounds, as arrays that can be saved, and back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedspca.linalg.beside import Adjustment, Reference
from fedspca.linalg.nystrom import NystromModel
from fedspca.solvers.asking import adjustment_arrays, reference_arrays
from fedspca.solvers.exact.loop import State
from fedspca.solvers.exact.problem import Incumbent
from fedspca.solvers.standardise import Moments
from fedspca.solvers.stopping import StopReason

COUNTS = ("n_components", "seed", "power_rounds", "search_rounds", "max_rounds", "round")


@dataclass(frozen=True)
class ExactState:
    """All that the coordinator holds between two rounds. A fit that goes on from it gives the same bits.

    Attributes
    ----------
    settings : str
        The estimator's settings, so that a state is not continued under others.
    moments : Moments
        Joint mean and spread, so that they are not asked for again.
    loop : State
        Model, open question, best point.
    """

    settings: str
    moments: Moments
    loop: State

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as named arrays, none of them of Python objects."""
        loop, moments, best = self.loop, self.moments, self.loop.incumbent
        d, r = len(moments.mean), loop.n_components
        arrays: dict[str, NDArray[Any]] = {
            "settings": np.array(self.settings),
            "n_rows": np.array(moments.n_rows),
            "mean": moments.mean,
            "scale": moments.scale,
            "total": np.array(moments.total),
            "constant": moments.constant,
            "missing": moments.missing,
            "factor": np.array(moments.factor),
            **{f"adjustment.{name}": array for name, array in adjustment_arrays(moments.adjustment).items()},
            **reference_arrays(moments.reference),
            **({} if moments.left_out is None else {"left_out": moments.left_out}),
            "taken": np.array(json.dumps(dict(moments.taken))),
            "counts": np.array([getattr(loop, name) for name in COUNTS]),
            "rank_tol": np.array(loop.rank_tol),
            "rotations": loop.rotations,
            **_side_by_side("factors", loop.model.factors, d),
            "gram": loop.model.gram,
            **_side_by_side("known", loop.model.asked, d),
            "whitening": loop.model.whitening,
            "asked": loop.asked,
            "candidates": np.array(loop.candidates).reshape(len(loop.candidates), d, r),
            "stopped": np.array("" if loop.stopped is None else loop.stopped.name),
        }
        if best is not None:
            arrays["best_w"], arrays["best_product"] = best.w, best.product
            arrays["best"] = np.array([best.objective, best.certificate, best.holds, best.cautious], dtype=np.float64)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild a state from :meth:`to_arrays`, or raise ValueError if these are not the arrays of one."""
        try:
            moments = Moments(
                float(arrays["n_rows"]) if arrays["n_rows"].dtype.kind == "f" else int(arrays["n_rows"]),
                arrays["mean"],
                arrays["scale"],
                float(arrays["total"]),
                arrays["constant"],
                arrays["missing"],
                adjustment=_adjustment(arrays),
                factor=float(arrays["factor"]),
                taken=json.loads(str(arrays["taken"])),
                reference=_reference(arrays),
                left_out=arrays.get("left_out"),
            )
            stopped = str(arrays["stopped"])
            best = None
            if "best" in arrays:
                objective, certificate, holds, cautious = (float(x) for x in arrays["best"])
                best = Incumbent(
                    arrays["best_w"], arrays["best_product"], objective, certificate, bool(holds), bool(cautious)
                )
            counts = dict(zip(COUNTS, (int(x) for x in arrays["counts"]), strict=True))
            loop = State(
                **counts,
                rank_tol=float(arrays["rank_tol"]),
                rotations=arrays["rotations"],
                model=NystromModel(
                    _apart("factors", arrays),
                    arrays["gram"],
                    _apart("known", arrays),
                    arrays["whitening"],
                    moments.total,
                ),
                asked=arrays["asked"],
                candidates=tuple(arrays["candidates"]),
                incumbent=best,
                stopped=StopReason[stopped] if stopped else None,
            )
            return cls(str(arrays["settings"]), moments, loop)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"These arrays are not a saved state of ExactSPCA: {error!r}.") from None


def _adjustment(arrays: Mapping[str, NDArray[Any]]) -> Adjustment | None:
    if "adjustment.coefficients" not in arrays:
        return None
    return Adjustment(arrays["adjustment.covariate_mean"], arrays["adjustment.coefficients"])


def _reference(arrays: Mapping[str, NDArray[Any]]) -> Reference | None:
    if "reference_mean" not in arrays:
        return None
    return Reference(arrays["reference_mean"], arrays["reference_spread"])


def _side_by_side(name: str, blocks: tuple[NDArray[Any], ...], d: int) -> dict[str, NDArray[Any]]:
    """Blocks of columns as one array, and how wide each of them is."""
    widths = np.array([block.shape[1] for block in blocks], dtype=np.int64)
    return {name: np.hstack([np.zeros((d, 0)), *blocks]), f"{name}_widths": widths}


def _apart(name: str, arrays: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """The original blocks, so that sums over them have the same rounding."""
    whole, widths = arrays[name], arrays[f"{name}_widths"]
    if widths.ndim != 1 or (widths < 0).any() or int(widths.sum()) != whole.shape[1]:
        raise ValueError(f"the widths of {name!r} do not add up")
    return tuple(np.ascontiguousarray(part) for part in np.split(whole, np.cumsum(widths)[:-1], axis=1)[: len(widths)])
