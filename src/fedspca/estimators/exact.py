"""ExactSPCA: the pooled optimum in about ten rounds."""

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from fedspca.estimators.base import checked_federation
from fedspca.estimators.certainty import CERTAINTY, certainty, check_whole
from fedspca.estimators.choosing import FOLDS, fit_chosen, selected
from fedspca.estimators.exact_solving import AUTO, BEGINNING, VARIANCE_KEPT, Course, ExactSolving
from fedspca.estimators.path_fits import fit_path
from fedspca.estimators.rows import RowsBeside
from fedspca.estimators.sample_first import fit_after_sample
from fedspca.estimators.selection import Selection
from fedspca.estimators.sparsity_path import SparsityPath
from fedspca.federation import Federation
from fedspca.federation.base import answers_gram, is_local, rows_counted, rows_seen
from fedspca.federation.covariance import CovarianceFederation
from fedspca.federation.folded import FoldedFederation
from fedspca.solvers.exact import loop, whole
from fedspca.solvers.exact.problem import oversampled
from fedspca.solvers.exact.state import ExactState
from fedspca.solvers.folds.sums import fold_sums
from fedspca.solvers.rounds import Round, Rounds
from fedspca.solvers.standardise import Moments

Array = NDArray[np.float64]

AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")


class ExactSPCA(ExactSolving):
    """Federated sparse PCA that reaches the pooled optimum in about ten rounds, whatever the sites hold.

    Each round is one sum, SQ for a few directions Q. All answers together give a model of S that never overestimates S.
    The coordinator solves the sparse problem on this model, which needs no round. The next sum shows how good the
    solution is for S itself. Sites keep no state. ``docs/exact.md`` gives the derivation.

    Sparsity is set in one of three ways, which are different problems: ``lam``, ``n_nonzero``, or by default
    ``variance_kept``.

    Parameters
    ----------
    n_components : int or "auto", default=2
        How many loadings. With "auto", several methods estimate how many exceed chance (``selection_``). This needs the
        whole covariance, a few sums over permuted columns, and folds (ten by default).
    variance_kept : float, default=0.95
        Find the sparsest orthonormal loadings that keep this share of what dense PCA with as many components explains.
        Used if neither ``n_nonzero`` nor ``lam`` is given; another share beside them brings a warning.
    n_nonzero : int, array-like of shape (n_components,) or "auto", optional
        At most this many non-zeros in each loading, as a constraint. With "auto", the fewest whose cross-validated
        score is within one standard error of the best.
    lam : float or array-like of shape (n_components,), optional
        Weight of the ℓ1 norm: min over St(d, r) of ‖A − Awwᵀ‖² + λ‖w‖₁, solved to a certificate. It is compared
        with sums of squares over all rows, so a suitable λ grows with the number of rows.
    orthogonal : bool, default=True
        For ``n_nonzero``: whether loadings are orthogonal, as in the paper. If not, supports may overlap freely,
        which explains a little more variance. Scores are then correlated, and reconstruction uses least squares.
    scale : bool, default=False
        Divide features by their joint standard deviation (ddof = 1).
    max_missing : float, default=0.0
        The largest share of missing values (NaN) that a feature may have over all sites. By default, the
        joint mean replaces them.
    missing : {"mean", "em", "em-once"}, default="mean"
        What missing values count as. With "em" they count as what the other values of their row make one expect under a
        Gaussian, whose mean and covariance are found by EM, by one sum over the sites a round. The components are then
        those of this covariance, and nothing more is asked. "em-once" takes one step of EM, from the covariance with
        missing values at the mean, corrected for these: it is for sites that are masked, since many rounds would tell
        rows with missing values one by one.
    n_starts : int, default=12
        How many random rotations of the leading subspace each search starts from, in addition to PCA, varimax and
        continuation (more than two components only). They need no round.
    precision : {"auto", "float64", "float32"}, default="auto"
        Precision of the answers that sites send. "float32" halves their size, and rows that are stored in single
        precision are multiplied so, in half the time; the certificate then cannot fall much below 1e-6. "auto" does
        that for many rows in single precision on one machine, except with ``lam``, whose certificate needs double
        precision. Variances are then right to about 1e-6, and ``upper_bound_`` allows for rounding.
    search : {"auto", "thorough", "products"}, default="auto"
        Whether the whole covariance is asked for, in one sum of d(d + 1)/2 numbers, and searched without further
        rounds. "thorough" asks for it; "products" never does, and learns a model from rounds of products; "auto" asks
        where the sites allow it and there are at most 2,000 features on one machine, 4,096 between machines.
    proof_seconds : float, default=0.25
        Time for bounds on what any loadings could capture, once the whole covariance is known; 0 turns it off. A
        single component is usually proved optimal within this time. More time gives smaller gaps. Unless it is 0,
        several components are searched from random starts as well, unless even ten of them take long: for about a
        tenth of a second, or ten times that where the package was built without a C compiler. With
        ``variance_kept``, unless it is 0, a search for loadings with the same number of non-zeros in each checks that
        none of them keep the share with fewer; it takes as long as a fit with ``n_nonzero``.
    folds : int, optional
        Number of folds: even, at least 4. Sites then give every sum by fold, and the fit reports how stable the
        loadings are, without further rounds: half samples are fitted from the same sums, with the same number of
        non-zeros per component. Each site assigns its own rows to folds. Answers are ``folds`` times as large.
    sample : int, optional
        For many rows: first fit to one row in ``sample``, dealt by the seed at each site, then go on
        from there with all rows. Full passes only judge and improve those loadings: two or three with ``n_nonzero``,
        beside those for the means. The covariance of all rows is not formed, so ``upper_bound_`` is that of dense PCA,
        as with ``search="products"``. It needs ``n_nonzero`` or ``lam``.
    tol : float, default=1e-6
        First-order residual of the pooled problem, relative to its gradient, at which ``lam`` is solved.
    max_rounds : int, default=30
        The most rounds, not counting those for centring and scaling.
    max_seconds : float, optional
        Time limit. After it, no new round and no new step of a search begins, once there are loadings, and a proof
        ends. The fit then returns the best loadings so far, and ``stop_reason_`` is ``MAX_SECONDS`` if the search was
        not over. The result then depends on the speed of the machine.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the first directions and of the rotations.
    callbacks : list of callables, optional
        Each is called with every :class:`~fedspca.Round` as it happens.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Sparse loadings, by decreasing variance, or in the order of ``n_nonzero`` or ``lam`` if that is a list. The
        weight of largest magnitude of each is positive. They are orthonormal, with exact zeros, unless
        ``orthogonal=False``.
    certificate_ : float or None
        For ``lam``, the first-order residual of the *pooled* problem at the components, from exact products.
    upper_bound_ : float
        A valid upper bound on ``-objective_`` over all loadings of the requested kind. For ``variance_kept`` it bounds
        the variance that loadings with as many non-zeros can capture. If the whole covariance is not known, it is an
        upper bound on the variance that dense PCA captures.
    optimality_gap_ : float
        How much better other loadings can be at most, relative to these: 0.003 is .3 %. 0 where they are proved
        optimal; a proof ends within a millionth.
    bound_is_dense_ : bool
        Whether the bound is that of dense PCA, which ignores the sparsity constraint.
    variance_kept_ : float
        Share of the variance of dense PCA, as far as that is known, that the span of the components captures.
    mean_, scale_ : ndarray of shape (n_features,)
        Joint mean, and what features are divided by.
    captured_variance_ratio_ : ndarray of shape (n_components,)
        Share of the variance that the span of the first 1, 2, … components captures: cumulative. Compare this with
        dense PCA.
    score_covariance_ : ndarray of shape (n_components, n_components)
        Covariance of the scores. Sparse components may correlate.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components,)
        Variance of each score beyond what the scores before it predict (Zou, Hastie and Tibshirani 2006), and its
        share. Where scores correlate, it adds up to less than the variance captured.
    objective_ : float
        Penalty, if any, less the variance that the span of the components captures.
    history_ : list of Round
        One record per round.
    n_rounds_, n_sites_, n_samples_ : int
        Numbers of sums asked for, of sites and of rows.
    rows_seen_, rows_counted_ : bool
        False after :meth:`fit_covariance`: whether there were rows, and so means; and whether their number is known.
    stop_reason_ : StopReason
        Why it stopped.
    state_ : ExactState
        The coordinator's whole state at the end.
    selection_ : Selection
        With "auto": the result of each method, and how certain it is.
    selection_frequency_ : ndarray of shape (n_components, n_features)
        With ``folds``: the share of half samples in which the component gives the feature a non-zero weight.
    weight_interval_ : ndarray of shape (n_components, n_features, 2)
        With ``folds``: intervals of 90 % for the weights.
    explained_variance_interval_ : ndarray of shape (n_components, 2)
        With ``folds``: intervals of 90 % for the variance that each component explains.
    stable_ : ndarray of bool of shape (n_components, n_features)
        With ``folds``: features with a selection frequency of at least ``stable_threshold_``.
    stable_threshold_, false_selections_ : ndarray of shape (n_components,)
        With ``folds``: that threshold, and a bound on the expected number of false selections, features selected
        no more often than by chance, among the stable features of each component (Meinshausen and Bühlmann 2010; Shah
        and Samworth 2013).
    cv_score_, cv_score_std_ : ndarray of shape (n_components, n_grid)
        With ``folds``: cross-validated Q² of the first 1, 2, … components with each number of non-zeros of
        ``cv_nonzeros_``, and its standard deviation over the folds.
    cv_nonzeros_ : ndarray of int of shape (n_grid,)
        The numbers of non-zeros that were tried.
    stand_ins_ : list of (int, int, int, float)
        With ``folds``: component, feature, another feature that half samples select instead, and their correlation.
    constant_features_ : ndarray of int
        Features with one value everywhere.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fedspca import ExactSPCA
    >>> data = load_breast_cancer(as_frame=True).data
    >>> owners = [row % 5 for row in range(len(data))]
    >>> pca = ExactSPCA(n_components=2, n_nonzero=6, scale=True).fit(data, sites=owners)
    >>> [int((weights != 0).sum()) for weights in pca.components_]
    [6, 6]
    """

    _working: str = "float64"  # the precision of answers, once the rows are known

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [AT_LEAST_ONE, StrOptions({AUTO})],
        "variance_kept": [Interval(Real, 0, 1, closed="right")],
        "n_nonzero": [AT_LEAST_ONE, "array-like", StrOptions({AUTO}), None],
        "lam": [Interval(Real, 0, None, closed="left"), "array-like", None],
        "orthogonal": ["boolean"],
        "scale": ["boolean"],
        "max_missing": [Interval(Real, 0, 1, closed="both")],
        "missing": [StrOptions({"mean", "em", "em-once"})],
        "n_starts": [Interval(Integral, 0, None, closed="left")],
        "precision": [StrOptions({AUTO, "float64", "float32"})],
        "search": [StrOptions({"auto", "thorough", "products"})],
        "proof_seconds": [Interval(Real, 0, None, closed="left")],
        "folds": [Integral, None],
        "sample": [Interval(Integral, 2, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_rounds": [AT_LEAST_ONE],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "random_state": ["random_state", np.random.Generator],
        "callbacks": [list, tuple, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components: int | Literal["auto"] = 2,
        *,
        variance_kept: float = VARIANCE_KEPT,
        n_nonzero: int | Sequence[int] | Literal["auto"] | None = None,
        lam: float | Sequence[float] | None = None,
        orthogonal: bool = True,
        scale: bool = False,
        max_missing: float = 0.0,
        missing: Literal["mean", "em", "em-once"] = "mean",
        n_starts: int = 12,
        precision: Literal["auto", "float64", "float32"] = "auto",
        search: Literal["auto", "thorough", "products"] = "auto",
        proof_seconds: float = 0.25,
        folds: int | None = None,
        sample: int | None = None,
        tol: float = 1e-6,
        max_rounds: int = 30,
        max_seconds: float | None = None,
        random_state: Any = 0,
        callbacks: Sequence[Callable[[Round], object]] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = cast("int", n_components)  # "auto" is replaced by a number before use
        self.variance_kept = variance_kept
        self.n_nonzero = n_nonzero
        self.lam = lam
        self.orthogonal = orthogonal
        self.scale = scale
        self.max_missing = max_missing
        self.missing = missing
        self.n_starts = n_starts
        self.precision = precision
        self.search = search
        self.proof_seconds = proof_seconds
        self.folds = folds
        self.sample = sample
        self.tol = tol
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.callbacks = callbacks
        self.verbose = verbose

    def fit_federation(
        self,
        federation: Federation,
        *,
        state: ExactState | None = None,
        on_state: Callable[[ExactState], object] | None = None,
        earlier: loop.Earlier | None = None,
    ) -> Self:
        """Fit over anything that implements the primitive ``sum(query)``.

        Parameters
        ----------
        federation : Federation
            The sites, wherever they are.
        state : ExactState, optional
            The state to continue from. An interrupted fit then gives the same bits as an uninterrupted one. A fit that
            had already ended is checked in one round.
        on_state : callable, optional
            Called with the :class:`~fedspca.ExactState` after every round; save what its ``to_arrays`` returns.
        earlier : (ndarray of shape (d, r), ndarray of shape (d, m)), optional
            Loadings and leading directions of a fit to other rows over the same features, for example
            ``model.earlier``. They are asked first, so that few rounds are left; see :meth:`update`.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        if state is not None and earlier is not None:
            raise ValueError("A fit goes on from a 'state', or begins at an 'earlier' fit. Give only one of them.")
        self._fit(federation, Course(state, on_state, None if earlier is None else loop.Earlier(*earlier)))
        return self

    def update(self, X: Any, *, sites: Any = None, **beside: Any) -> Self:
        """Fit to all rows, old and new, from where this fit ended: few rounds are left where the rows are much alike.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            All rows as they are now, over the same features.
        sites : array-like of shape (n_samples,), optional
            The owner of each row.
        **beside
            Further arguments of :meth:`fit`: covariates, weights.

        Returns
        -------
        self : object
            The estimator, fitted again. Its loadings are those of a new fit to all rows or better ones, if the whole
            covariance is asked for. By products a new fit searches more often, and may find a better local optimum.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from fedspca import ExactSPCA
        >>> rows = load_breast_cancer().data
        >>> pca = ExactSPCA(2, n_nonzero=8, scale=True, search="products").fit(rows[:400])
        >>> before = pca.n_rounds_
        >>> pca.update(rows).n_rounds_ < before
        True
        """
        return self.update_federation(self._local_federation(X, RowsBeside(sites, **beside), reset=False))

    def update_federation(self, federation: Federation) -> Self:
        """Fit over a federation whose rows have changed since; see :meth:`update`."""
        return self.fit_federation(federation, earlier=self.earlier_)

    @property
    def earlier_(self) -> loop.Earlier:
        """Where this fit ended, for a later fit to more rows: the loadings, and leading directions."""
        check_is_fitted(self)
        if hasattr(self, "state_"):
            width = oversampled(self.n_components_) - self.n_components_
            return loop.Earlier(self.components_.T, loop.ended(self.state_.loop, width))
        return loop.Earlier(self.components_.T, self.basis_)  # of a model that was loaded

    def _leading(self, n: int) -> tuple[Array, Array] | None:
        return loop.leading(self.state_.loop, n)

    def _fit(self, federation: Federation, course: Course = BEGINNING) -> Array | None:
        if not rows_seen(federation):
            self._check_without_rows()
        if self._auto("n_components") or self._auto("n_nonzero"):
            return fit_chosen(self, federation, course)
        if self.sample is not None and course.state is None and course.earlier is None:
            return fit_after_sample(self, federation, course, self.sample)
        folded = None
        if self.folds is not None:
            check_whole(course.state)
            federation = folded = FoldedFederation(checked_federation(federation), self.folds, self._deal())
        with self._asking(federation) as rounds:
            moments = self._moments(rounds) if course.state is None else self._moments_of(course.state, rounds)
            self._working = self._precision_for(rounds, moments)
            self._check_n_components(self.n_components, moments, counted=rows_counted(rounds))
            self._tell_unused(len(moments.mean))
            found, s = self._solve_on(rounds, moments, self._generator(), course)
            self._set_fitted(rounds, moments, found)
        self._set_certainty(folded, moments)
        return s

    def choose(self, X: Any, *, sites: Any = None) -> Selection:
        """Estimate how many components and non-zeros to use, without a fit.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The rows of all sites.
        sites : array-like of shape (n_samples,), optional
            The owner of each row.

        Returns
        -------
        selection : Selection
            The result of each method. A given number of components is kept.
        """
        return self.choose_federation(self._local_federation(X, RowsBeside(sites), reset=True))

    def choose_federation(self, federation: Federation) -> Selection:
        """Estimate the same over a federation; see :meth:`choose`."""
        if self.missing != "mean":
            raise ValueError(
                f"A choice compares folds of the rows, and missing={self.missing!r} makes one covariance of all rows. "
                "Leave it out: missing values then count as the joint mean."
            )
        folded = FoldedFederation(checked_federation(federation), self.folds or FOLDS, self._deal())
        with self._asking(folded) as rounds:
            return selected(self, rounds, folded, self._moments(rounds), sparsity=True)[0]

    def _validate_params(self) -> None:
        super()._validate_params()
        auto = self._auto("n_components") or self._auto("n_nonzero")
        if self.missing != "mean" and (self.folds is not None or auto):
            raise ValueError(
                f"missing={self.missing!r} makes one covariance of all rows: it takes no folds, and numbers instead of "
                "auto."
            )
        if self.sample is not None and (auto or self.missing != "mean"):
            told = "'auto'" if auto else f"missing={self.missing!r}"
            raise ValueError(f"{told} needs the covariance of all rows, and with 'sample' it is not formed.")
        if self.sample is not None and self.lam is None and self.n_nonzero is None:
            # the fewest non-zeros of a sample keep their own weights, which lose more than one part in 10,000
            raise ValueError("The 'sample' parameter of ExactSPCA needs 'n_nonzero' or 'lam' beside it.")
        if self.folds is not None and (self.folds < 4 or self.folds % 2):
            raise ValueError(
                "The 'folds' parameter of ExactSPCA must be an even number of at least 4, since half samples are made "
                f"of whole folds; 10 is usual. Got {self.folds} instead."
            )

    def _deal(self) -> int:
        """Return the seed with which sites assign their rows to folds."""
        return int(self.random_state) if isinstance(self.random_state, Integral) else 0

    def _set_certainty(self, folded: FoldedFederation | None, moments: Moments) -> None:
        """Set the attributes that come from sums by fold; delete those of an earlier fit."""
        for name in (*CERTAINTY, "selection_"):
            if hasattr(self, name):
                delattr(self, name)
        if folded is not None:
            sums = fold_sums(folded.asked, moments, self.components_.T, scaled=self.scale)
            told = certainty(sums, self.components_.T, self.explained_variance_, orthogonal=self.orthogonal)
            for name, value in told.items():
                setattr(self, name, value)

    def fit_covariance(
        self, S: Any, *, n_samples: int | None = None, feature_names: Iterable[object] | None = None
    ) -> Self:
        """Fit to a covariance or correlation matrix when the rows are not available.

        Parameters
        ----------
        S : array-like of shape (n_features, n_features)
            Symmetric and positive semidefinite. Any other matrix is refused, with figures that say why.
        n_samples : int, optional
            The number of rows behind the matrix. Sums of squares (``objective_``, and the term that ``lam`` is compared
            with) are n_samples - 1 times the covariance. If it is None, the number is unknown and this factor is one;
            ``n_samples_`` is then 2.
        feature_names : iterable of str, optional
            The features' names; by default those of a DataFrame, whose index must have the same.

        Returns
        -------
        self : object
            The fitted estimator. The features' means are unknown, so that ``transform``, ``inverse_transform`` and
            ``score`` are refused: they need them.
        """
        self._validate_params()
        self._fit(CovarianceFederation(S, n_samples, feature_names))
        return self

    def _check_without_rows(self) -> None:
        """Refuse settings that need rows, where there is only a covariance."""
        for name in ("n_components", "n_nonzero"):
            if self._auto(name):
                raise ValueError(
                    f"The {name!r} parameter of ExactSPCA must be a number: 'auto' needs rows, and there is only a "
                    "covariance."
                )
        asked = {
            "folds": self.folds,
            "sample": self.sample,
            "missing": None if self.missing == "mean" else self.missing,
        }
        for name, value in asked.items():
            if value is not None:
                raise ValueError(
                    f"The {name!r} parameter of ExactSPCA needs rows, and there is only a covariance. Leave it out."
                )

    def _moments_of(self, state: ExactState, rounds: Rounds) -> Moments:
        """Return the moments with which an interrupted fit began, if it was this one."""
        if state.settings != self._settings(rounds.feature_names):
            raise ValueError(
                "The state to go on from belongs to a fit with other settings or features. "
                "Set them alike, or begin without a state."
            )
        return state.moments

    def _asks_gram(self, federation: Federation, n_rows: float) -> bool:
        """Whether the whole covariance is to be asked for."""
        if self.sample is not None:
            return False
        if self.search != "auto":
            return self.search == "thorough"
        many = self.lam is not None and self.n_components > whole.MANY_PENALISED
        d, local = len(federation.feature_names), is_local(federation) and not many
        if local and self.n_nonzero is not None:
            return whole.pays(n_rows, d, self.n_components) and answers_gram(federation)
        return d <= (whole.LOCAL_FEATURES if local else whole.REMOTE_FEATURES) and answers_gram(federation)

    def path(
        self,
        X: Any,
        *,
        lam: Sequence[float] | None = None,
        n_nonzero: Sequence[int | Sequence[int]] | None = None,
        sites: Any = None,
        rounds_per_point: int = 2,
        **beside: Any,
    ) -> SparsityPath:
        """Solve for a whole grid of λ, or of non-zeros, with one or two rounds per point.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            The rows of all sites.
        lam : sequence of float, optional
            A grid of λ.
        n_nonzero : sequence of int or of sequences of int, optional
            A grid of numbers of non-zeros per loading. One of the two grids must be given.
        sites : array-like of shape (n_samples,), optional
            The owner of each row.
        rounds_per_point : int, default=2
            The most rounds per point. With few rounds, the certificates of a λ path stay above ``tol``.
        **beside
            Further arguments of :meth:`fit`: covariates, weights.

        Returns
        -------
        path : SparsityPath
            The solutions, with ways to choose among them. The estimator is fitted to the first of the grid.
        """
        federation = self._local_federation(X, RowsBeside(sites, **beside), reset=True)
        return self.path_federation(federation, lam=lam, n_nonzero=n_nonzero, rounds_per_point=rounds_per_point)

    def path_federation(
        self,
        federation: Federation,
        *,
        lam: Sequence[float] | None = None,
        n_nonzero: Sequence[int | Sequence[int]] | None = None,
        rounds_per_point: int = 2,
    ) -> SparsityPath:
        """Solve for a whole grid over a federation; see :meth:`path`."""
        if self._auto("n_components"):
            raise ValueError("A path needs a number of components: 'auto' chooses it for one fit.")
        if (lam is None) == (n_nonzero is None):
            raise ValueError("Give a grid of either 'lam' or 'n_nonzero'.")
        name, grid = ("lam", list(lam)) if lam is not None else ("n_nonzero", list(n_nonzero or ()))
        if not grid:
            raise ValueError(f"The grid of {name!r} is empty.")
        return fit_path(self, federation, name, grid, rounds_per_point=rounds_per_point)

    def _with(self, **settings: Any) -> "ExactSPCA":
        """Return an estimator that is not fitted, with some settings changed."""
        return ExactSPCA(**{**self.get_params(deep=False), **settings})

    def _take_fit(self, other: "ExactSPCA") -> None:
        """Take over what the fit of another estimator set."""
        for name in [name for name in vars(other) if name.endswith("_")]:
            setattr(self, name, getattr(other, name))
