"""Effort of a search on S, and time of a proof. Every number was chosen with ``python -m benchmarks optima``."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

_FEW, _SOME, _MANY = 5, 8, 20  # with more components, each of them costs more, and the search repeats less
_SPARSE = 100  # with at most this many non-zeros in all, `_SOME` components are searched as thoroughly as few
_PAIRS = 4  # with fewer components, searching two of them again gained on 1 of 225 problems, by 8e-6
_AT_ONCE = 8  # with more columns of a single solution, few calls for all of them cost less than the calls for each
_LARGE = 1000  # with more features than this, a pass over S takes most of the time


@dataclass(frozen=True)
class Tuning:
    """Effort of a search. Every number trades time for the chance of a better point.

    Attributes
    ----------
    small : int
        With at most this many features, all of them are starts.
    first_wave : int
        Number of features used as starts first, by their row bounds. Their results decide which others are needed.
    starts : int
        With many features, the most of them that are starts beside other columns.
    wide, spare : int
        Of more features than ``wide``, and than ``spare`` times the non-zeros in all, a first search for several
        columns uses only the most promising ones. All features are then tried in the place of those selected.
    short : int
        With at most this many non-zeros, every feature may be a start. With a larger k, only the share ``short / k`` of
        the features is used.
    long : int
        With more non-zeros than this, a quick search uses truncated power steps only.
    power_steps : int
        Truncated power steps from a start. Most supports settle in five.
    chunk : int
        Number of starts in one matrix product. It only limits memory.
    refits : int
        Settled supports that are refitted exactly, best first.
    climbs : int
        Refitted supports that are improved by swaps, best first.
    swaps : int
        Number of the most promising swaps of two features that are tried exactly at a time.
    steps : int
        The most swaps in a row. Local searches end by themselves; this only limits their time.
    points : int
        Solutions that are swept once, all together; the better half of them is swept again.
    beam : int
        Partial solutions that are kept while columns are added one after another.
    branches : int
        Continuations of each of them.
    pool : int
        Number of supports from which columns are combined.
    sweeps : int
        Times that all columns are updated in turn.
    finalists : int
        Solutions that are swept to the end.
    pairs : int
        Pairs of columns of the last solution that are removed and searched again.
    handovers : bool
        Whether features may move from one column to another, and whether swaps with a refit of all columns are tried.
    near : float
        A column that takes over a feature is improved by swaps only if all columns together then capture more than this
        share of the best variance.
    few : int
        Number of features that may enter a column, and of features that may leave it. Their swaps are compared.
    rotations : int
        Number of rotations of the leading eigenvectors whose supports enter the pool, in addition to the eigenvectors
        themselves and their varimax rotation.
    entries : int
        Number of entries that elimination tries to leave out, the cheapest to first order first, before it ends.
    deadline : float
        Time, by ``time.monotonic()``, after which no further move is tried. The best solution so far is returned.
    """

    small: int = 16
    first_wave: int = 8
    starts: int = 128
    wide: int = 100
    spare: int = 5
    short: int = 20
    long: int = 40
    power_steps: int = 20
    chunk: int = 512
    refits: int = 64
    climbs: int = 4
    swaps: int = 8
    steps: int = 40
    beam: int = 8
    points: int = 32
    branches: int = 2
    pool: int = 16
    sweeps: int = 6
    finalists: int = 4
    pairs: int = 3
    handovers: bool = True
    near: float = 0.99
    few: int = 6
    rotations: int = 12
    entries: int = 24
    deadline: float = math.inf

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline

    @property
    def asked(self) -> Callable[[], bool] | None:
        """The same as a function to ask, for compiled code; None if there is no deadline."""
        return None if self.deadline == math.inf else lambda: self.late

    def quick(self) -> Self:
        """The same where points are only to be ranked: few swaps are tried, and few in a row."""
        return replace(self, swaps=2, steps=3)

    @classmethod
    def for_size(cls, d: int, k: int, r: int) -> Self:
        """Effort for a problem of this size: fewer repetitions of each step the longer one step takes."""
        plain = cls()
        eigenproblem = max(1.0, (k / 16.0) ** 3)  # in units of a small one
        fewer = max(1.0, (r - 1) / 2.0)
        few = r <= _FEW or (r <= _SOME and r * k <= _SPARSE)
        most_climbs = plain.climbs if r > 1 else 6 * plain.climbs  # for one component there is no other work
        made = replace(
            plain,
            refits=max(2, int(plain.refits / eigenproblem)),
            climbs=max(1, int(most_climbs / max(1.0, eigenproblem / 8.0, fewer / 2.0))),
            swaps=max(2, int(plain.swaps / eigenproblem)),
            steps=max(4, int(plain.steps / max(1.0, eigenproblem / 8.0))),
            beam=plain.beam if few else max(2, int(plain.beam / fewer)) if r <= _MANY else 1,
            points=plain.points if few else max(8, int(plain.points / fewer)) if r <= _MANY else 1,
            starts=plain.starts if r <= _SOME else plain.starts // 4,
            branches=plain.branches if r <= _FEW else 1,
            pool=max(8, int(plain.pool / max(1.0, eigenproblem / 4.0, fewer))) if r <= _SOME else 0,
            sweeps=max(3, int(plain.sweeps / max(1.0, fewer / 2.0))) if r <= _MANY else 4,
            finalists=max(3, int(plain.finalists / fewer)) if r <= _MANY else 1,
            pairs=plain.pairs if _PAIRS <= r <= _FEW and k <= 64 else 0,
            handovers=few and k <= 64,
            rotations=plain.rotations if r <= 3 else 30 if r <= _FEW else 0,
        )
        return made if d <= _LARGE or r == 1 else made.lighter()

    def lighter(self) -> Self:
        """Less effort, for a search that is repeated many times."""
        return replace(
            self,
            beam=min(2, self.beam),
            points=min(4, self.points),
            branches=1,
            climbs=2,
            finalists=1,
            sweeps=2,
            pairs=0,
            pool=0,
            handovers=False,
        )


def at_once(r: int, tuning: Tuning) -> bool:
    """Whether columns are searched all at once: there are many, of one solution."""
    return tuning.finalists == 1 and r > _AT_ONCE


@dataclass(frozen=True)
class ProofTuning:
    """How a proof spends its time.

    Attributes
    ----------
    a_try : float
        Share of the time for a first branch and bound, before first-order steps improve the bound. Most problems are
        solved in this time.
    dual : float
        Share of the remaining time for the first-order steps, if branch and bound follows them.
    single : float
        Share of the time for one component alone, if there are several.
    apart : float
        Share of the remaining time for loadings that share no feature, if they may.
    lists : float
        Share of the remaining time for lists of supports, before first-order steps.
    line_search : int
        Eigenproblems of a line search over rho; with 14 the ends of the bracket have a ratio of 1e-3.
    climb : Tuning
        Effort of the local search from a leaf of the tree. A better point found early closes many nodes.
    """

    a_try: float = 0.2
    dual: float = 0.4
    single: float = 0.2
    apart: float = 0.4
    lists: float = 0.8
    line_search: int = 14
    climb: Tuning = field(default_factory=lambda: Tuning(steps=3, swaps=8))
