"""From one table, with covariates and weights, to sites; and new rows, prepared as in the fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.data.transforms import check_transforms, transformed
from fedspca.linalg.operators import Frame
from fedspca.linalg.row_blocks import unmasked
from fedspca.site import InvalidData, Site
from fedspca.site.dask_rows import is_dask
from fedspca.site.preparation import Design, Preparation, beside_rows, covariates_of, is_missing, level_text
from fedspca.site.question import SiteData

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RowsBeside:
    """What a fit is given besides its rows; see :meth:`FederatedSparsePCA.fit`."""

    sites: Any = None
    covariates: Any = None
    adjust: Sequence[str] | None = None
    protect: Sequence[str] | None = None
    sample_weight: Any = None
    centre: str = "joint"
    scale_by: str = "joint"
    site_weight: str = "rows"
    transform: Sequence[str] = ()
    variable: int | None = None

    def __post_init__(self) -> None:
        if self.transform:
            check_transforms(self.transform)
        if self.site_weight not in ("rows", "equal"):
            raise InvalidData(f"'site_weight' must be 'rows' or 'equal'. Got {self.site_weight!r} instead.")
        for name in ("adjust", "protect"):
            if self.covariates is None and getattr(self, name) is not None:
                raise InvalidData(f"{name!r} names covariates, and no 'covariates' are given.")

    def make_sites(self, rows: Any, **shared: Any) -> list[Site]:
        """Return the sites that hold the rows."""
        n = rows.shape[0]
        if self.transform:
            rows = transformed_rows("rows", rows, self.transform)
        values = {} if self.covariates is None else covariate_values(self.covariates, n)
        preparation = self._preparation(values)
        lines = preparation.design.encode("covariates", values) if preparation.design.terms else None
        weights = None if self.sample_weight is None else _weights(self.sample_weight, n)
        found = []
        for label, mine in owners(self.sites, n):
            counted = weights if weights is None or mine is None else weights[mine]
            if counted is not None and not counted.any() and self.site_weight == "rows":
                continue  # a site whose rows all have weight zero is left out
            found.append(
                Site(
                    label,
                    rows if mine is None else rows_of(rows, mine),
                    preparation=preparation,
                    covariates=lines if lines is None or mine is None else lines[mine],
                    weights=counted,
                    **shared,
                )
            )
        if not found:
            raise InvalidData("Every weight is zero, so that no row counts.")
        return found

    def _preparation(self, values: dict[str, Any]) -> Preparation:
        terms = covariates_of(self.centre, self.adjust or (), self.protect or ())
        if self.adjust is None and self.protect is None:
            terms = tuple(values)
        known = Design(terms)
        if unknown := [name for name in known.names if name not in values]:
            raise InvalidData(f"There is no covariate {unknown[0]!r}; there are {', '.join(map(repr, values))}.")
        levels = {name: levels_of(values[name]) for name in known.names if not is_numeric(values[name])}
        return Preparation(
            Design(terms, levels),
            weighted=self.sample_weight is not None,
            equal_sites=self.site_weight == "equal",
            centre=self.centre,
            scale=self.scale_by,
            transform=tuple(self.transform),
            variable=self.variable,
        )


def plain_rows(X: Any) -> Any:
    """Return rows as scikit-learn reads them: masked values NaN, and a sparse frame dense if not zeros are left out."""
    if hasattr(X, "columns"):
        kinds = list(getattr(X, "dtypes", ()))
        if kinds and all(hasattr(kind, "fill_value") for kind in kinds) and any(kind.fill_value != 0 for kind in kinds):
            return X.sparse.to_dense()
    return unmasked(X)


def transformed_rows(where: str, rows: Any, names: Sequence[str]) -> Any:
    """Return rows after the transforms of each row by itself; refuse rows on a cluster."""
    if is_dask(rows):
        raise InvalidData("Transforms need rows in this process, not on a Dask cluster.")
    return transformed(where, rows, names)


def _weights(given: Any, n: int) -> Array:
    """Return weights as scikit-learn's users give them: a number for all rows, or one for each."""
    weights = np.asarray(given, dtype=np.float64)
    if weights.ndim == 0:
        return np.full(n, float(weights))
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weights.ndim}D array.")
    if len(weights) != n:
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n,)}!")
    return weights


def is_numeric(values: Any) -> bool:
    """Whether values are numbers or Booleans."""
    return np.asarray(values).dtype.kind in "fiub"


def levels_of(values: Any) -> tuple[str, ...]:
    """Return the levels of a category in order: its own order if it has one, else alphabetical."""
    own = getattr(getattr(values, "dtype", None), "categories", None)
    present = {level_text(value) for value in np.asarray(values, dtype=object) if not is_missing(value)}
    if own is not None:
        return tuple(level for value in own if (level := level_text(value)) in present)
    return tuple(sorted(present))


def covariate_values(covariates: Any, n: int) -> dict[str, Any]:
    """Return each covariate's values by name, from a DataFrame or an array."""
    if hasattr(covariates, "columns"):
        values = {str(name): covariates[name] for name in covariates.columns}
    elif getattr(covariates, "name", None) is not None:  # a Series
        values = {str(covariates.name): covariates}
    else:
        table = np.asarray(covariates)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim != 2:
            raise InvalidData(f"'covariates' must be a table of rows and columns. Got {table.ndim} dimensions.")
        values = {f"c{j}": column for j, column in enumerate(table.T)}
    for name, column in values.items():
        if len(column) != n:
            raise InvalidData(f"The covariate {name!r} has {len(column)} values for {n} rows.")
    return values


def owners(sites: Any, n: int) -> list[tuple[str, NDArray[np.bool_] | None]]:
    """Return the name of each site, and which rows are its own; None for all of them."""
    if sites is None:
        return [("all", None)]
    named = list(sites)
    if len(named) != n:
        raise InvalidData(f"'sites' must name the owner of each of the {n} rows. Got {len(named)} names instead.")
    if any(is_missing(owner) for owner in named):
        raise InvalidData("'sites' must name the owner of every row; some are missing.")
    labels = np.array([str(owner) for owner in named])
    return [(str(label), labels == label) for label in np.unique(labels)]


def rows_of(rows: Any, mine: NDArray[np.bool_]) -> Any:
    """Return one site's rows: a view if they are dense and consecutive, else a copy."""
    where = np.flatnonzero(mine)
    if where[-1] - where[0] + 1 == len(where):
        return rows[where[0] : where[-1] + 1]
    return rows[where]


def encoded(preparation: Preparation, covariates: Any, n: int) -> Array | None:
    """Return the design's columns for new rows; None if the fit adjusted for no covariates."""
    design = preparation.design
    if not design.terms:
        if covariates is not None:
            raise InvalidData("Covariates are given, and the fit took none out.")
        return None
    if covariates is None:
        raise InvalidData(f"The fit took out {', '.join(map(repr, design.names))}: new rows need 'covariates' too.")
    values = covariate_values(covariates, n)
    return design.encode("covariates", values)


def score_rows(
    rows: Any, frame: Frame, loadings: Array, lines: Array | None, sites: Any, preparation: Preparation
) -> Array:
    """Scores of rows on loadings, in the frame of a fit, less what covariates explain; rows are not changed.

    If the fit used each site's own mean and spread (its own shift and spread, with ComBat), those of the new rows of
    each site are used.
    """
    if preparation.centre == "joint":
        return _scores(rows, frame, loadings, lines)
    scores = np.empty((rows.shape[0], loadings.shape[1]))
    alike = Preparation(preparation.design, centre=preparation.centre, scale=preparation.scale)
    for label, mine in owners(sites, rows.shape[0]):
        where = slice(None) if mine is None else mine
        here = rows if mine is None else rows_of(rows, mine)
        beside, _ = beside_rows(label, here.shape[0], None if lines is None else lines[where], None, alike)
        seen = SiteData(label, here, beside=beside, preparation=alike).raw(frame)
        scores[where] = _scores(here, seen, loadings, beside.covariates)
    return scores


def _scores(rows: Any, frame: Frame, loadings: Array, lines: Array | None) -> Array:
    scaled = loadings / frame.scale[:, None]
    scores = np.asarray(rows @ scaled - frame.mean @ scaled)
    if frame.adjustment is not None and lines is not None:
        scores = scores - (lines - frame.adjustment.mean) @ (frame.adjustment.coefficients @ scaled)
    return scores
