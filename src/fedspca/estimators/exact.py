"""ExactSPCA: the pooled optimum in about ten rounds."""

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from fedspca._callers import warn_caller
from fedspca.estimators.base import FederatedSparsePCA, Found, checked_federation
from fedspca.estimators.certainty import CERTAINTY, certainty, check_whole
from fedspca.estimators.rows import RowsBeside
from fedspca.estimators.selection import Selection, select
from fedspca.estimators.sparsity_path import PathModel, SparsityPath
from fedspca.federation import Federation, LocalFederation
from fedspca.federation.base import answers_gram, is_local, is_single, most_directions
from fedspca.federation.covariance import CovarianceFederation
from fedspca.federation.folded import FoldedFederation
from fedspca.federation.sampled import SampledFederation
from fedspca.linalg import nystrom
from fedspca.linalg.operators import COLUMNS_OF_A_FIT
from fedspca.linalg.rotations import canonical_order
from fedspca.linalg.single import ROUNDING
from fedspca.linalg.spread import SINGLE_PAYS
from fedspca.site.errors import InvalidData
from fedspca.solvers.exact import loop, whole
from fedspca.solvers.exact.cardinality import Cardinality
from fedspca.solvers.exact.driver import penalised_objective, run
from fedspca.solvers.exact.grid import PathPoint, follow
from fedspca.solvers.exact.penalised import Penalised
from fedspca.solvers.exact.problem import Problem, oversampled
from fedspca.solvers.exact.state import ExactState
from fedspca.solvers.exact.variance_kept import VarianceKept
from fedspca.solvers.folds.sums import fold_sums
from fedspca.solvers.rounds import Round, Rounds
from fedspca.solvers.standardise import Moments
from fedspca.solvers.stopping import StopReason

Array = NDArray[np.float64]

AUTO = "auto"
SELECTION_SIGHT = 300  # the most features for which many numbers of non-zeros are compared
FOLDS = 10  # where "auto" needs folds and none were given
GAIN_AFTER_SAMPLE = 1e-6  # the share of the variance for which a full pass after a sample is worth while
MOST_DIRECTIONS = 1024  # that the first question of an update asks, if owners set no limit
LATER_DIRECTIONS = 20  # of a later question, beside three for each component
COLUMNS_AFTER_SAMPLE = 20  # about as many as the one or two passes after a sample multiply
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
# below this share of the largest eigenvalue an answer is only rounding error; dividing by it would spoil the model
RANK_TOL = {"float64": 1e-11, "float32": 1e-5}
# The model of S divides an answer by no less than the root of RANK_TOL, which makes its error 2/√RANK_TOL as large. An
# answer is off by less than 1e-9 of the trace in all tests; a hundred times as much is allowed for.
MODEL_ROUNDING = 1e-7 * 2.0 / math.sqrt(RANK_TOL["float32"])


class Course(NamedTuple):
    """What one fit needs besides the settings: the state to start from, and the callback for its states."""

    state: ExactState | None = None
    on_state: Callable[[ExactState], object] | None = None
    earlier: loop.Earlier | None = None  # where a fit to other rows of these features ended
    rows_known: bool = True  # for a given covariance, the number of rows may be unknown


BEGINNING = Course()


class ExactSPCA(FederatedSparsePCA):
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
        Used if neither ``n_nonzero`` nor ``lam`` is given.
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
        where the sites allow it and there are at most 2,000 features on one machine, 4,096 between machines. With
        ``variance_kept`` it asks only up to 320 weights in all (features times components): more would take seconds.
    proof_seconds : float, default=0.25
        Time for bounds on what any loadings could capture, once the whole covariance is known; 0 turns it off. A
        single component is usually proved optimal within this time. More time gives smaller gaps.
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
        Time limit. After it, no new round and no new step of a search begins, once there are loadings. The fit then
        returns the best loadings so far, and ``stop_reason_`` is ``MAX_SECONDS``. The result then depends on the
        speed of the machine.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the first directions and of the rotations.
    callbacks : list of callables, optional
        Each is called with every :class:`~fedspca.Round` as it happens.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Sparse loadings, by decreasing variance; the weight of largest magnitude of each is positive. They are
        orthonormal, with exact zeros, unless ``orthogonal=False``.
    certificate_ : float or None
        For ``lam``, the first-order residual of the *pooled* problem at the components, from exact products.
    upper_bound_ : float
        A valid upper bound on ``-objective_`` over all loadings of the requested kind. For ``variance_kept`` it bounds
        the variance that loadings with as many non-zeros can capture. If the whole covariance is not known, it is an
        upper bound on the variance that dense PCA captures.
    optimality_gap_ : float
        How much better other loadings can be at most, relative to these: 0.003 is .3 %. 0 where they are proved
        optimal.
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
        variance_kept: float = 0.95,
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

    def _fit(self, federation: Federation, course: Course = BEGINNING) -> Array | None:
        if self._auto("n_components") or self._auto("n_nonzero"):
            return self._fit_chosen(federation, course)
        if self.sample is not None and course.state is None and course.earlier is None:
            return self._fit_after_sample(federation, course, self.sample)
        folded = None
        if self.folds is not None:
            check_whole(course.state)
            federation = folded = FoldedFederation(checked_federation(federation), self.folds, self._deal())
        with self._asking(federation) as rounds:
            moments = self._moments(rounds) if course.state is None else self._moments_of(course.state, rounds)
            self._working = self._precision_for(rounds, moments)
            # if the number of rows is unknown, only the features limit the components
            limits = moments if course.rows_known else replace(moments, n_rows=len(moments.mean))
            self._check_n_components(self.n_components, limits)
            found, s = self._solve_on(rounds, moments, self._generator(), course)
            self._set_fitted(rounds, moments, found)
        self._set_certainty(folded, moments)
        return s

    def _fit_after_sample(self, federation: Federation, course: Course, parts: int) -> Array | None:
        """Fit to one row in ``parts``, then to all rows from where that fit ended."""
        self._validate_params()
        if not isinstance(federation, LocalFederation):
            self._fit_after_asking_sample(federation, course, parts)
            return None
        small = federation.sampled(parts, self._deal())
        lam = None if self.lam is None else np.asarray(self.lam, dtype=np.float64) / parts  # S is a sum over rows
        settings = {"sample": None, "folds": None, "lam": lam, "proof_seconds": 0.0, "callbacks": None, "verbose": 0}
        first = ExactSPCA(**{**self.get_params(deep=False), **settings})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the fit to all rows says how it ended
            first._fit(small)
        federation.expect(COLUMNS_AFTER_SAMPLE)
        try:
            return self._fit(federation, course._replace(earlier=first.earlier_))
        finally:
            federation.expect(COLUMNS_OF_A_FIT)

    def _fit_after_asking_sample(self, federation: Federation, course: Course, parts: int) -> None:
        """Do the same over sites that are only asked: about a sample in the frame of all rows, then about all rows."""
        if self.folds is not None:
            raise ValueError(
                "A site deals its rows in one way: for a sample, or into folds. Leave out 'sample' or 'folds'."
            )
        with self._asking(federation) as rounds:
            moments = self._moments(rounds)
            self._working = self._precision_for(rounds, moments)
            self._check_n_components(self.n_components, moments)
            sample = Rounds(SampledFederation(rounds, parts, self._deal()))
            settings = {"sample": None, "proof_seconds": 0.0, "callbacks": None, "verbose": 0}
            first = ExactSPCA(**{**self.get_params(deep=False), **settings})
            first._working = self._working
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                w = first._solve_on(sample, moments, first._generator(), Course())[0].w
            width = oversampled(self.n_components) - self.n_components
            ended = loop.Earlier(w, loop.ended(first.state_.loop, width))
            found, _ = self._solve_on(rounds, moments, self._generator(), course._replace(earlier=ended))
            self._set_fitted(rounds, moments, found)
        self._set_certainty(None, moments)

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
        folded = FoldedFederation(checked_federation(federation), self.folds or FOLDS, self._deal())
        with self._asking(folded) as rounds:
            return self._selected(rounds, folded, self._moments(rounds), sparsity=True)[0]

    def _fit_chosen(self, federation: Federation, course: Course) -> Array:
        """Choose the "auto" settings from the data, then fit. The sums are asked for only once."""
        check_whole(course.state)
        self._validate_params()
        folded = FoldedFederation(checked_federation(federation), self.folds or FOLDS, self._deal())
        with self._asking(folded) as rounds:
            moments = self._moments(rounds)
            selection, s = self._selected(rounds, folded, moments, sparsity=self._auto("n_nonzero"))
            chosen = self._decided(selection)
            chosen._working = self._working
            chosen._check_n_components(chosen.n_components, moments)
            found = chosen._solve_given(s, rounds, moments, course)
            chosen._set_fitted(rounds, moments, found)
        chosen._set_certainty(folded, moments)
        for fitted in [key for key in vars(chosen) if key.endswith("_")]:
            setattr(self, fitted, getattr(chosen, fitted))
        self.selection_ = selection
        return s

    def _precision_for(self, federation: Federation, moments: Moments) -> str:
        """Return the precision of answers: single where rows are many, stored so, and no certificate is asked for."""
        if not self._auto("precision"):
            return self.precision
        many = moments.n_rows * len(moments.mean) >= SINGLE_PAYS
        return "float32" if many and self.lam is None and is_single(federation) else "float64"

    def _auto(self, name: str) -> bool:
        """Whether a setting is "auto", to be chosen from the data."""
        given = getattr(self, name)
        return isinstance(given, str) and given == AUTO

    def _check_auto(self, rounds: Rounds) -> None:
        d, most = len(rounds.feature_names), whole.LOCAL_FEATURES if is_local(rounds) else whole.REMOTE_FEATURES
        if self.search == "products" or d > most or not answers_gram(rounds):
            raise ValueError(
                "'auto' needs the whole covariance in one sum: the sites must allow it, search must not be 'products', "
                f"and there may be at most {most} features (there are {d}). Give numbers instead."
            )

    def _selected(
        self, rounds: Rounds, folded: FoldedFederation, moments: Moments, *, sparsity: bool
    ) -> tuple[Selection, Array]:
        """Ask for S, and apply every selection method to it."""
        self._check_auto(rounds)
        self._working = self._precision_for(rounds, moments)
        s = whole.ask(rounds, moments.frame, self._working)
        nothing = np.zeros((len(s), 1))
        selection = select(
            rounds,
            s,
            fold_sums(folded.asked, moments, nothing, scaled=self.scale, most=SELECTION_SIGHT),
            moments,
            n_components=None if self._auto("n_components") else self.n_components,
            sparsity=sparsity,
            orthogonal=self.orthogonal,
            seed=self._deal(),
        )
        return selection, s

    def _decided(self, selection: Selection) -> "ExactSPCA":
        """Return the estimator with the numbers that were chosen."""
        if selection.n_components == 0:
            told = " ".join(selection.in_words())
            raise InvalidData(f"{told} Give n_components to fit some all the same.")
        settings = {**self.get_params(deep=False), "n_components": selection.n_components, "folds": self.folds or FOLDS}
        if self._auto("n_nonzero"):
            settings["n_nonzero"] = selection.n_nonzero
        return ExactSPCA(**settings)

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
            with) are n_samples - 1 times the covariance. None counts as two, so that this factor is one.
        feature_names : iterable of str, optional
            The features' names; by default those of a DataFrame.

        Returns
        -------
        self : object
            The fitted estimator. Its mean is zero.
        """
        self._validate_params()
        self._fit(CovarianceFederation(S, n_samples, feature_names), Course(rows_known=n_samples is not None))
        return self

    def _moments_of(self, state: ExactState, rounds: Rounds) -> Moments:
        """Return the moments with which an interrupted fit began, if it was this one."""
        if state.settings != self._settings(rounds.feature_names):
            raise ValueError(
                "The state to go on from belongs to a fit with other settings or features. "
                "Set them alike, or begin without a state."
            )
        return state.moments

    def _settings(self, feature_names: Sequence[str]) -> str:
        """Return the settings that a solution depends on, as text."""
        names = (
            "n_components",
            "variance_kept",
            "n_nonzero",
            "lam",
            "orthogonal",
            "scale",
            "max_missing",
            "missing",
            "n_starts",
            "precision",
            "search",
            "sample",
            "tol",
        )
        chosen = {name: np.asarray(getattr(self, name)).tolist() for name in names}
        return json.dumps({**chosen, "feature_names": list(feature_names)}, sort_keys=True)

    def _solve(self, rounds: Rounds, moments: Moments, _: int, rng: np.random.Generator) -> Found:
        return self._solve_on(rounds, moments, rng, Course())[0]

    def _solve_on(
        self, rounds: Rounds, moments: Moments, rng: np.random.Generator, course: Course
    ) -> tuple[Found, Array | None]:
        """Find the loadings: on the whole S if it is asked for (S is then returned too), else by products."""
        if course.state is None and self._asks_gram(rounds):
            return self._solve_whole(rounds, moments, rng, course)
        return self._solve_by_products(rounds, moments, rng, course), None

    def _solve_by_products(self, rounds: Rounds, moments: Moments, rng: np.random.Generator, course: Course) -> Found:
        problem, settings, on_state = self._problem(), self._settings(rounds.feature_names), course.on_state
        state = self._begin(moments, problem, rng) if course.state is None else course.state.loop
        if (earlier := self._usable(course.earlier, moments)) is not None:
            most = _directions(rounds, self.n_components) if self.sample is None else 0
            state = loop.begin_at(state, earlier, most=most)
            if self.sample is not None:  # the search was on the sample
                state = replace(state, search_rounds=0)
        state = loop.reopen(state, self.max_rounds)
        save = None if on_state is None else lambda loop_state: on_state(ExactState(settings, moments, loop_state))
        lam = self._penalty()
        state = run(
            rounds,
            moments.frame,
            problem,
            state,
            precision=self._working,
            lam=lam,
            on_state=save,
            max_seconds=self._seconds,
        )
        self.state_ = ExactState(settings, moments, state)
        w, product = loop.solution(state)
        found = self._ordered(w, product)
        dense = nystrom.captured(state.model, self.n_components)
        self.variance_kept_ = -penalised_objective(found.w, found.captured, None) / dense
        self.certificate_ = state.incumbent.certificate if lam is not None and state.incumbent is not None else None
        self._set_bound(
            found, None, nystrom.at_most(state.model, self.n_components, moments.total), MODEL_ROUNDING * moments.total
        )
        self._conclude(state)
        return found

    def _asks_gram(self, federation: Federation) -> bool:
        """Whether the whole covariance is to be asked for."""
        if self.sample is not None:
            return False
        if self.search != "auto":
            return self.search == "thorough"
        many = self.lam is not None and self.n_components > whole.MANY_PENALISED
        most = whole.LOCAL_FEATURES if is_local(federation) and not many else whole.REMOTE_FEATURES
        if self.lam is None and self.n_nonzero is None:
            most = min(most, whole.ELIMINATED // self.n_components)
        return len(federation.feature_names) <= most and answers_gram(federation)

    def _solve_whole(
        self, rounds: Rounds, moments: Moments, rng: np.random.Generator, course: Course
    ) -> tuple[Found, Array]:
        """Ask for S in one sum, then search on S."""
        s = whole.ask(rounds, moments.frame, self._working)
        return self._solve_given(s, rounds, moments, course, rng), s

    def _solve_given(
        self, s: Array, rounds: Rounds, moments: Moments, course: Course, rng: np.random.Generator | None = None
    ) -> Found:
        """Search on S, which the last round returned, and report that round."""
        settings = self._settings(rounds.feature_names)
        found, state = self._solve_known(s, moments, rng or self._generator(), self._usable(course.earlier, moments))
        rounds.report(
            objective=self._objective(found.w, found.captured, rounds.n_sites),
            certificate=self.certificate_,
            nonzeros=int(np.count_nonzero(found.w)),
            upper_bound=self.upper_bound_,
        )
        self.state_ = ExactState(settings, moments, state)
        if course.on_state is not None:
            course.on_state(self.state_)
        return found

    def _solve_known(
        self, s: Array, moments: Moments, rng: np.random.Generator, earlier: loop.Earlier | None = None
    ) -> tuple[Found, loop.State]:
        """Search on S, and set the attributes that only this method knows."""
        problem = self._problem()
        begun = self._begin(moments, problem, rng)
        deadline = time.monotonic() + self._seconds
        seconds = float(self.proof_seconds)
        solved = whole.solve(s, problem, begun, seconds=seconds, deadline=deadline, earlier=earlier)
        if self._rounded and solved.stopped is StopReason.PROVED:  # only of S as it was rounded
            solved = replace(solved, stopped=StopReason.STATIONARY)
        state = whole.known(s, problem, begun, solved)
        found = self._ordered(*loop.solution(state))
        self.certificate_ = None if self.lam is None else solved.certificate
        self.variance_kept_ = -penalised_objective(found.w, found.captured, None) / solved.dense
        rounding = ROUNDING * math.sqrt(self.n_components) * moments.total
        self._set_bound(found, solved.bound, solved.dense * (1.0 + 1e-9), rounding)
        self._conclude(state)
        return found, state

    def _usable(self, earlier: loop.Earlier | None, moments: Moments) -> loop.Earlier | None:
        """Return where an earlier fit ended, if it had as many components; refuse other features."""
        if earlier is None:
            return None
        d = len(moments.mean)
        if any(part.ndim != 2 or len(part) != d for part in earlier):
            raise InvalidData(f"The earlier fit was to other features: these rows have {d}.")
        return earlier if earlier.w.shape[1] == self.n_components else None

    @property
    def _seconds(self) -> float:
        """How long a search may take."""
        return math.inf if self.max_seconds is None else float(self.max_seconds)

    @property
    def _rounded(self) -> bool:
        """Whether answers were in single precision."""
        return self._working == "float32"

    def _set_bound(self, found: Found, bound: float | None, dense: float, rounding: float) -> None:
        """Set the upper bound (that of dense PCA if there is no other) and the gap.

        In single precision, the variance of any loadings may be off by ``rounding``, and so may the bound.
        """
        lam = self._penalty()
        reached = -penalised_objective(found.w, found.captured, lam)
        least_penalty = 0.0 if lam is None else float(lam.sum())  # ‖w‖₁ ≥ 1 for every column
        dense -= least_penalty
        self.bound_is_dense_ = bound is None or dense < bound
        self.upper_bound_ = max(dense if bound is None else min(bound, dense), reached)
        if self._rounded:
            self.upper_bound_ += 2.0 * rounding
        self.optimality_gap_ = (self.upper_bound_ - reached) / abs(reached) if reached else 0.0

    def _begin(self, moments: Moments, problem: Problem, rng: np.random.Generator) -> loop.State:
        return loop.begin(
            problem,
            len(moments.mean),
            self.n_components,
            moments.total,
            rng,
            n_rotations=self.n_starts,
            max_rounds=self.max_rounds,
            rank_tol=RANK_TOL[self._working],
        )

    def _ordered(self, w: Array, product: Array) -> Found:
        """Fix the signs of the loadings, and sort them by decreasing variance unless each has its own setting."""
        captured = w.T @ product
        own = not np.isscalar(self.lam if self.lam is not None else self.n_nonzero or 0)
        order, signs = canonical_order(w, np.diag(captured), reorder=not own)
        return Found(w[:, order] * signs + 0.0, captured[np.ix_(order, order)] * np.outer(signs, signs))

    def _problem(self) -> Problem:
        if self.lam is not None and self.n_nonzero is not None:
            raise ValueError(
                "The 'lam' and 'n_nonzero' parameters of ExactSPCA are two ways to ask for sparsity. Give only one."
            )
        lam = self._penalty()
        if lam is not None:
            return Penalised(lam, self.tol)
        if self.n_nonzero is not None:
            problem = Cardinality(self._counts(self.n_nonzero), self.orthogonal)
            # a sample's weights are a little off, and a further pass puts them right
            return problem if self.sample is None else replace(problem, tol=GAIN_AFTER_SAMPLE)
        return VarianceKept(float(self.variance_kept))

    def _penalty(self) -> Array | None:
        if self.lam is None:
            return None
        lam = np.asarray(self.lam, dtype=np.float64)
        if lam.ndim == 0:
            return np.full(self.n_components, float(lam))
        if lam.shape != (self.n_components,) or not (np.isfinite(lam).all() and (lam >= 0).all()):
            raise ValueError(
                f"The 'lam' parameter of ExactSPCA, as a sequence, must have a non-negative number for each of the "
                f"{self.n_components} components. Got {self.lam!r} instead."
            )
        return lam

    def _counts(self, n_nonzero: Any) -> tuple[int, ...]:
        given = np.asarray(n_nonzero)
        counts = np.full(self.n_components, given) if given.ndim == 0 else given
        if counts.shape != (self.n_components,) or counts.dtype.kind not in "iu" or (counts < 1).any():
            raise ValueError(
                f"The 'n_nonzero' parameter of ExactSPCA must be an integer of at least 1, or one for each of the "
                f"{self.n_components} components. Got {n_nonzero!r} instead."
            )
        return tuple(int(count) for count in counts)

    def _conclude(self, state: loop.State) -> None:
        self.stop_reason_ = state.stopped or StopReason.MAX_ROUNDS
        if self.stop_reason_.success or self.stop_reason_ is StopReason.CALLBACK:
            return
        reached = (
            "" if self.certificate_ is None else f" with a certificate of {self.certificate_:.1e} (tol={self.tol:g})"
        )
        warn_caller(
            f"ExactSPCA stopped after {state.round} rounds{reached}: {self.stop_reason_.value}. "
            "Try more rounds (max_rounds), more time (max_seconds), a larger tol, or precision='float64'.",
            ConvergenceWarning,
        )

    def _objective(self, w: Array, captured: Array, n_sites: int) -> float:
        return penalised_objective(w, captured, self._penalty())

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
        estimators = [self._with(name, setting) for setting in grid]
        problems = [estimator._problem() for estimator in estimators]
        first = estimators[0]
        matrix = first._fit(federation)  # if S is known, all points are solved on it
        for estimator in estimators:
            estimator._working = first._working
        for fitted in [key for key in vars(first) if key.endswith("_")]:
            setattr(self, fitted, getattr(first, fitted))
        moments, state = first.state_.moments, first.state_.loop
        rounds = Rounds(federation, self.callbacks or (), first.history_)
        certificate = np.nan if first.certificate_ is None else first.certificate_
        points = [
            PathPoint(*loop.solution(state), certificate, first.n_rounds_, first.stop_reason_),
            *(
                follow(
                    rounds, moments.frame, state, problems[1:], max_rounds=rounds_per_point, precision=first._working
                )
                if matrix is None
                else [estimator._known_point(matrix, moments) for estimator in estimators[1:]]
            ),
        ]
        models = [
            estimator._path_model(setting, moments.total, point)
            for estimator, setting, point in zip(estimators, grid, points, strict=True)
        ]
        dense = nystrom.captured(state.model, self.n_components)
        return SparsityPath(
            tuple(models), dense / moments.total, round(moments.n_rows), len(moments.mean), len(rounds.history)
        )

    def _with(self, name: str, setting: Any) -> "ExactSPCA":
        settings = {**self.get_params(deep=False), "lam": None, "n_nonzero": None, name: setting}
        return ExactSPCA(**settings)

    def _known_point(self, s: Array, moments: Moments) -> PathPoint:
        """Return a point of a path, solved on S without a round."""
        _, state = self._solve_known(s, moments, self._generator())
        certificate = np.nan if self.certificate_ is None else self.certificate_
        return PathPoint(*loop.solution(state), certificate, 0, self.stop_reason_)

    def _path_model(self, setting: Any, total: float, point: PathPoint) -> PathModel:
        found = self._ordered(point.w, point.product)
        ratio = -penalised_objective(found.w, found.captured, None) / total
        return PathModel(
            setting, found.w.T, int(np.count_nonzero(found.w)), ratio, float(point.certificate), point.rounds
        )


def _directions(federation: Federation, r: int) -> int:
    """Return how many directions the first question of an update may ask: later ones ask some of them, and others."""
    allowed = most_directions(federation)
    return MOST_DIRECTIONS if allowed is None else min(MOST_DIRECTIONS, allowed - 3 * r - LATER_DIRECTIONS)
