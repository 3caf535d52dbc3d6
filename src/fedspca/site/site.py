"""One owner's rows, local state and policy, and the answers they give."""

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fedspca.dp.accounting import Purpose
from fedspca.dp.ledger import Ledger
from fedspca.linalg.feature_sums import counts_where
from fedspca.linalg.row_blocks import AnyRows, RemoteRows, Rows, row_blocks, unmasked
from fedspca.linalg.spread import spread_of
from fedspca.site.dask_rows import DaskRows, is_dask
from fedspca.site.disclosure import disclosed, singled_out
from fedspca.site.errors import InvalidData, InvalidQuery, SiteRefusal
from fedspca.site.folds import MINE, answer_by_fold, answer_of_sample, deal
from fedspca.site.policy import Policy
from fedspca.site.preparation import PLAIN, Preparation, beside_rows
from fedspca.site.queries import QUERIES
from fedspca.site.question import Query, Question, SiteData, State, Terms, query_hash
from fedspca.site.snapshot import restore, snapshot

TOO_LARGE = 1e70  # norms of AᵀAw use fourth powers of values, and the largest double is 1.8e308
OUTWEIGHS = 2.0**20  # after subtracting a mean this many times larger, values keep 33 of their 53 bits
SAME_ROWS = 1e-9  # sums of the same rows by other versions differ by less than this


class Site:
    """One owner of rows: answers the questions its policy allows, each with terms of a sum.

    Parameters
    ----------
    name : str
        The site's name in the federation; errors and logs use it.
    X : array-like, scipy sparse matrix or dask.array of shape (n_rows, n_features)
        The rows. Dense single or double precision and CSR are kept as they are, without a copy; a Dask array
        stays on its cluster.
    policy : Policy, optional
        What the owner allows; by default every question of the closed list.
    feature_names : sequence of str, optional
        The columns' names; by default those of a DataFrame, or ``x0``, ``x1``, …
    allow_missing : bool, default=False
        Whether values may be missing (NaN). The joint mean replaces them, and the numbers of values present are summed.
    preparation : Preparation, optional
        How the rows are prepared before any question: covariates, weights, the site's own mean. It is the same for all
        sites of a federation.
    covariates : ndarray of shape (n_rows, n_lines), optional
        The columns of the preparation's design, from :meth:`Design.encode`.
    weights : array-like of shape (n_rows,), optional
        How often each row counts.
    """

    def __init__(
        self,
        name: str,
        X: Any,
        *,
        policy: Policy | None = None,
        feature_names: Sequence[str] | None = None,
        allow_missing: bool = False,
        preparation: Preparation = PLAIN,
        covariates: NDArray[np.float64] | None = None,
        weights: Any | None = None,
    ) -> None:
        self.name = str(name)
        if not isinstance(policy, Policy | None):
            raise TypeError(f"The policy of site {self.name!r} must be a Policy. Got {policy!r} instead.")
        self.policy = policy or Policy()
        if feature_names is None and hasattr(X, "columns"):
            feature_names = [str(column) for column in X.columns]
        rows = _as_rows(self.name, X)
        self.feature_names = _checked_names(self.name, feature_names, rows.shape[1])
        spread = spread_of(rows, TOO_LARGE) if isinstance(rows, np.ndarray) else None
        missing = spread is None and _check_values(self.name, rows, self.feature_names, allow_missing=allow_missing)
        self.preparation = preparation
        _check_design(self.name, self.feature_names, rows, preparation, missing=missing)
        beside, weight = beside_rows(f"Site {self.name!r}", rows.shape[0], covariates, weights, preparation)
        few = (self.policy.min_rows, self.policy.min_fold_rows)
        about: dict[str, Any] = {"beside": beside, "weight": weight, "preparation": preparation, "few": few}
        self._data = SiteData(self.name, rows, missing=missing, spread=spread, **about)
        self._state: State = None
        self._answered = 0
        self.ledger: Ledger | None = None  # if it has a budget, every answer has noise and is charged to it
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Site({self.name!r}, {self.n_rows} rows, {self.n_features} features)"

    @property
    def n_rows(self) -> int:
        """How many rows the site holds."""
        return int(self._data.rows.shape[0])

    @property
    def n_features(self) -> int:
        """How many columns the rows have."""
        return int(self._data.rows.shape[1])

    @property
    def single(self) -> bool:
        """Whether the rows are dense numbers in single precision, all present, to be seen as they are."""
        rows, plain = self._data.rows, self.preparation.plain and not self._data.missing
        return plain and isinstance(rows, np.ndarray) and rows.dtype == np.float32

    @cached_property
    def totals(self) -> NDArray[np.float64]:
        """Σ1, Σx and Σx² by column. They never leave the site, and show whether the rows are the same.

        Columns are the features, the covariates and the weights.
        """
        return self._data.totals

    @cached_property
    def disclosed(self) -> str | None:
        """What covariates and weights would disclose about few rows, in words for the owner; None if nothing."""
        names = [line.name for line in self.preparation.design.lines]
        least = {"min_rows": self.policy.min_rows, "least": self.policy.min_fold_rows}
        return disclosed(self._data.beside, names, **least)

    def holds(self, totals: NDArray[np.float64]) -> bool:
        """Whether these are the totals of the site's rows, up to rounding."""
        own = self.totals
        if totals.shape != own.shape or totals[0, 0] != self.n_rows:
            return False
        unit = np.stack([own[0], np.sqrt(self.n_rows * own[2]), own[2]])
        return bool(np.all(np.abs(totals - own) <= SAME_ROWS * unit))

    def outweighed_by(self, query: Query) -> bool:
        """Whether a question subtracts something so large that rounding would erase the values.

        Whoever chose such a mean, or such coefficients of covariates, could choose which rows count. A column of zeros
        has no values to erase, and is not checked.
        """
        d, arrays = self.n_features, query.arrays
        if "mean" not in arrays:
            return False
        totals = self._data.under(query).totals
        taken = np.maximum(np.abs(arrays["mean"]), np.abs(arrays.get("reference_mean", 0.0)))
        if "covariate_mean" in arrays:
            about = np.abs(arrays["covariate_mean"])
            reach = about + np.sqrt(totals[2, d : d + len(about)])
            taken = np.append(taken + reach @ np.abs(arrays.get("coefficients", np.zeros((len(about), d)))), about)
        squares = totals[2, : len(taken)]
        return bool(np.any((squares > 0) & (taken > OUTWEIGHS * np.sqrt(squares / self.n_rows))))

    def singled_out(self, query: Query) -> str | None:
        """Return which feature the transform of a question would make one of few rows; None if it does not."""
        seen = self._data.under(query)
        if seen.rows is self._data.rows:
            return None
        at = singled_out(self._data.rows, seen.rows, self.policy.min_fold_rows)
        return None if at is None else self.feature_names[at]

    def answer(self, query: Query, purpose: Purpose | None = None) -> Terms:
        """Answer one question with this site's terms of the sum, or raise a :class:`SiteError` that says why not.

        ``purpose`` says what a release with noise is for; without it, the site's own noise must be enough.
        """
        with self._lock:
            if query.name not in QUERIES:
                known = ", ".join(sorted(QUERIES))
                raise InvalidQuery(self.name, query.name, f"there is no such question; there are {known}.")
            question = QUERIES[query.name]
            self.policy.check(
                self.name,
                query.name,
                rows=self.n_rows // query.sample if query.sample else self.n_rows,
                answered=self._answered,
                components=question.components(query),
                features=self.n_features,
                folds=query.folds,
                sample=query.sample,
            )
            question.validate(self.name, self.n_features, query)
            self._pay(question, query, purpose)
            self._answered += 1  # failed attempts count too: a failure also discloses something
            if query.folds and question.additive:
                return answer_by_fold(question, self._data, query, self.policy.min_fold_rows)
            if query.sample:
                return answer_of_sample(question, self._data, query)
            self._state, terms = question.answer(self._data.under(query), self._state, query)
            return terms

    def _pay(self, question: Question, query: Query, purpose: Purpose | None) -> None:
        """Charge the ledger for a question with noise, before data are touched; refuse one without it if required."""
        private = purpose is not None or (self.ledger is not None and self.ledger.budget is not None)
        if question.cost is None:
            if private:
                raise SiteRefusal(self.name, query.name, "in a private study only answers with noise leave the site.")
            return
        if self.ledger is None:
            raise SiteRefusal(self.name, query.name, "it keeps no ledger of what is spent on privacy.")
        among = purpose.among if purpose is not None else 1
        if not 1 <= int(query.scalars["among"]) <= among:
            reason = f"the noise of {query.scalars['among']} sites was counted on and {among} is certain."
            raise SiteRefusal(self.name, query.name, reason)
        try:
            self.ledger.charge(question.cost(self.n_features, query), query.name, query_hash(query), purpose)
        except (ValueError, ArithmeticError) as error:  # the budget is spent, or the cost cannot be computed
            raise SiteRefusal(self.name, query.name, f"{error}.") from None

    def sampled(self, parts: int, seed: int) -> "Site":
        """Return a site that holds one of so many parts of the rows, dealt as :func:`~fedspca.site.folds.deal` does."""
        rows = self._data.rows
        if isinstance(rows, RemoteRows) or not self.preparation.plain:
            raise InvalidData(
                f"Site {self.name!r}: a sample can be drawn only of rows in this process, without covariates, weights "
                "or a mean of their own. Fit without a sample."
            )
        mine = deal(self.name, self.n_rows, parts, seed, self.policy.min_fold_rows) == MINE
        if not mine.any():
            raise InvalidData(
                f"Site {self.name!r} holds too few rows for a sample of one in {parts}: none of its {self.n_rows} is "
                "left. Take a smaller number, or no sample."
            )
        names, missing = self.feature_names, self._data.missing
        return Site(
            self.name, rows[np.flatnonzero(mine)], policy=self.policy, feature_names=names, allow_missing=missing
        )

    def expect(self, columns: int) -> None:
        """Say by about how many columns the rows will be multiplied. With few, no Gram matrix is formed first."""
        self._data.expected = columns

    def answer_alone(self, query: Query) -> Terms:
        """Answer with figures that will be shown as this site's own, if its policy allows that for this question."""
        if query.name not in self.policy.alone:
            raise SiteRefusal(self.name, query.name, "its policy allows the answer only as a term of a sum.")
        return self.answer(query)

    def begin(self) -> None:
        """Forget the state of an earlier fit; the count of questions answered stays."""
        with self._lock:
            self._state = None

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return what the site would lose if it stopped now, without the rows; :meth:`restore` takes it."""
        with self._lock:
            return snapshot(self._state, self._answered)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a snapshot, with the same rows: the same questions then get the same bits."""
        with self._lock:
            self._state, self._answered = restore(arrays)


def _check_design(site: str, names: tuple[str, ...], rows: AnyRows, preparation: Preparation, *, missing: bool) -> None:
    """Refuse a covariate that is also a feature, covariates for rows on a cluster, and ComBat without every value."""
    if both := sorted(set(preparation.design.names) & set(names)):
        raise InvalidData(
            f"Site {site!r}: {both[0]!r} is a covariate that is {'protected' if preparation.combat else 'taken out'}, "
            "and also a feature. "
            "Leave it out of the features."
        )
    if preparation.combat and missing:
        raise InvalidData(
            f"Site {site!r}: ComBat needs every value, and some are missing. Fill them in first, or use centre='site'."
        )
    if preparation.joint is not None:
        _check_transform(site, rows, preparation.joint[0])
    apart = isinstance(rows, RemoteRows) and not rows.in_order
    if apart and (preparation.design.terms or not preparation.counts_rows):
        raise InvalidData(f"Site {site!r}: covariates and weights need rows in this process, not on a Dask cluster.")


def _check_transform(site: str, rows: AnyRows, name: str) -> None:
    """Refuse genotypes and rows on a cluster, and Pearson residuals of what cannot be counts."""
    if isinstance(rows, RemoteRows):
        raise InvalidData(f"Site {site!r}: the transform {name} is not for genotypes, nor for rows on a Dask cluster.")
    values = rows if isinstance(rows, np.ndarray) else rows.data
    if name == "pearson" and (values < 0).any():
        raise InvalidData(f"Site {site!r}: Pearson residuals are of counts, and some values are negative.")


def _as_rows(site: str, X: Any) -> AnyRows:
    """Rows as a dense array or CSR, float32 or float64; copied only where the type must change."""
    rows: Any
    if sp.issparse(X):
        rows = cast(Any, X).tocsr()  # scipy types its base class without it
        if not rows.has_canonical_format:  # an entry stored in several parts would be counted several times
            rows = rows.copy()
            rows.sum_duplicates()
    elif is_dask(X):
        rows = DaskRows(X)
    elif isinstance(X, RemoteRows):
        rows = X
    else:
        try:
            rows = np.asarray(unmasked(X))
        except ValueError as error:
            raise InvalidData(f"Site {site!r}: the rows are not a rectangular table of numbers ({error}).") from None
    if rows.ndim != 2:
        raise InvalidData(f"Site {site!r}: expected a table of rows and columns, got {rows.ndim} dimension(s).")
    if rows.dtype.kind not in "fiub":
        kind = "complex numbers" if rows.dtype.kind == "c" else f"values of type {rows.dtype}"
        raise InvalidData(
            f"Site {site!r}: the rows must be real numbers, got {kind}. Encode or leave out such columns."
        )
    if 0 in rows.shape:
        what = "rows" if rows.shape[0] == 0 else "columns"
        raise InvalidData(f"Site {site!r}: the table has no {what} (its shape is {rows.shape}).")
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    return cast(AnyRows, rows)  # one of three kinds, which the checks above tell apart


@lru_cache(maxsize=2)  # many sites share one tuple, which makes comparing their names fast
def default_names(n_features: int) -> tuple[str, ...]:
    """Return x0, x1, and so on."""
    return tuple(f"x{j}" for j in range(n_features))


def _checked_names(site: str, names: Sequence[str] | None, n_features: int) -> tuple[str, ...]:
    if names is None:
        return default_names(n_features)
    names = tuple(str(name) for name in names)
    if len(names) != n_features:
        raise InvalidData(f"Site {site!r}: {len(names)} feature names were given for {n_features} columns.")
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidData(f"Site {site!r}: feature names must be unique; given more than once: {', '.join(twice[:5])}.")
    return names


def _check_values(site: str, rows: AnyRows, names: tuple[str, ...], *, allow_missing: bool) -> bool:
    """Return whether values are missing. Refuse infinity, what is too large to square, and NaN unless allowed."""
    if isinstance(rows, RemoteRows):
        return _check_remote_values(site, rows, names, allow_missing=allow_missing)
    missing, above = False, 0
    for block in row_blocks(rows):
        values = block if isinstance(block, np.ndarray) else block.data
        # NaN propagates through both, and neither copies the rows
        lowest, highest = float(values.min(initial=0.0)), float(values.max(initial=0.0))
        if not (lowest > -TOO_LARGE and highest < TOO_LARGE):
            missing = missing or bool(np.isnan(values).any())
            _refuse_values(site, block, names, above, allow_missing=allow_missing)
        above += block.shape[0]
    return missing


def _check_remote_values(site: str, rows: RemoteRows, names: tuple[str, ...], *, allow_missing: bool) -> bool:
    """Do the same where the rows are: bad values are counted by column, in one sum."""
    missing, large = counts_where(rows, np.isnan, lambda values: np.abs(values) >= TOO_LARGE)
    bad = large if allow_missing else large + missing
    if bad.any():
        column = int(np.argmax(bad > 0))
        advice = ", or set max_missing to allow for missing values" if missing[column] else ""
        raise InvalidData(
            f"Input contains NaN, infinity or too large a value. Site {site!r}, column {names[column]!r} "
            f"(no. {column + 1}): {int(missing[column])} are NaN, {int(large[column])} infinite or too large. Impute "
            f"or remove them{advice}."
        )
    return bool(missing.any())


def _refuse_values(site: str, block: Rows, names: tuple[str, ...], above: int, *, allow_missing: bool) -> None:
    """Raise an :class:`InvalidData` that names the first bad value of the block, if there is one."""
    values = block if isinstance(block, np.ndarray) else block.data
    bad = ~(np.abs(values) < TOO_LARGE)
    if allow_missing:
        bad &= ~np.isnan(values)
    if not bad.any():
        return
    if isinstance(block, np.ndarray):
        row, column = np.argwhere(bad)[0]
    else:
        at = int(np.argmax(bad))
        row, column = int(np.searchsorted(block.indptr, at, side="right") - 1), block.indices[at]
    value = block[row, column]
    what = "NaN" if np.isnan(value) else "infinity (inf)" if np.isinf(value) else f"a value too large ({value:.3g})"
    raise InvalidData(
        f"Input contains NaN, infinity or too large a value. Site {site!r}, column {names[column]!r} "
        f"(no. {column + 1}): the first such value, {what}, is in row {above + row + 1} (counted from 1). Impute or "
        "remove them first"
        f"{', or set max_missing to allow for missing values' if np.isnan(value) else ''}."
    )
