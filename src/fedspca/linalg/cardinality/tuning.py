"""How much a search of S does, and how a proof spends its time. ``python -m benchmarks optima`` set every number."""

import math
import time
from dataclasses import dataclass, field, replace
from typing import Self

_LARGE = 1000  # features beyond which a pass over S takes longer than all else


@dataclass(frozen=True)
class Tuning:
    """Effort of a search. Every number trades time for the chance of a better point.

    Attributes
    ----------
    first_wave : int
        Features that start first, by their row bounds. What they reach decides who else has to start.
    short : int
        With up to so many non-zeros every feature may start. With k more of them only the share ``short / k`` does.
    long : int
        Non-zeros beyond which a quick look takes truncated power steps only.
    power_steps : int
        Truncated power steps from a start. Most supports settle in five.
    chunk : int
        Starts in one product. It only bounds memory.
    refits : int
        Settled supports that are refitted exactly, best first.
    climbs : int
        Refitted supports that go on by swaps, best first.
    swaps : int
        Swaps of two features that are tried exactly at a time, by what they promise.
    steps : int
        Swaps after each other. Climbs end by themselves; this bounds how long they may take.
    beam : int
        Partial solutions that are kept while columns are added one after another.
    branches : int
        Continuations of each of them.
    pool : int
        Supports out of which columns are combined.
    sweeps : int
        Times that all columns are updated in turn.
    finalists : int
        Solutions that are swept to the end.
    pairs : int
        Pairs of columns that are given up and found anew, in the last solution.
    handovers : bool
        Whether features may be handed from one column to another, and be swapped with all columns refitted.
    near : float
        A column that takes over a feature goes on by swaps if all capture this share of the best variance by then.
    few : int
        Features that may enter a column, and as many that may leave it, whose swaps are then weighed.
    rotations : int
        Rotations of the leading eigenvectors, beside themselves and varimax, whose supports enter the pool.
    entries : int
        Entries that elimination tries to leave out, by what that costs to first order, before it ends.
    deadline : float
        When, by ``time.monotonic()``, no further move is tried: the best by then is the answer.
    """

    first_wave: int = 8
    short: int = 20
    long: int = 40
    power_steps: int = 20
    chunk: int = 512
    refits: int = 64
    climbs: int = 6
    swaps: int = 16
    steps: int = 40
    beam: int = 4
    branches: int = 2
    pool: int = 24
    sweeps: int = 6
    finalists: int = 2
    pairs: int = 3
    handovers: bool = True
    near: float = 0.99
    few: int = 6
    rotations: int = 8
    entries: int = 24
    deadline: float = math.inf

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline

    @classmethod
    def for_size(cls, d: int, k: int, r: int) -> Self:
        """Effort that a problem of this size is worth: less of each kind where one of it takes longer."""
        plain = cls()
        eigenproblem = max(1.0, (k / 16.0) ** 3)  # in units of a small one
        fewer = max(1.0, (r - 1) / 2.0)
        most_climbs = plain.climbs if r > 1 else 4 * plain.climbs  # which are all that one component takes
        made = replace(
            plain,
            refits=max(2, int(plain.refits / eigenproblem)),
            climbs=max(1, int(most_climbs / max(1.0, eigenproblem / 8.0, fewer / 2.0))),
            swaps=max(2, int(plain.swaps / eigenproblem)),
            steps=max(4, int(plain.steps / max(1.0, eigenproblem / 8.0))),
            beam=max(2, int(plain.beam / fewer)),
            branches=plain.branches if r <= 3 else 1,
            pool=max(8, int(plain.pool / max(1.0, eigenproblem / 4.0, fewer))),
            sweeps=max(2, int(plain.sweeps / max(1.0, fewer / 2.0))),
            finalists=max(1, int(plain.finalists / fewer)),
            pairs=plain.pairs if r <= 4 and k <= 64 else 0,
            handovers=r <= 5 and k <= 64,
            rotations=plain.rotations if r <= 3 else 0,
        )
        return made if d <= _LARGE or r == 1 else made.lighter()

    def lighter(self) -> Self:
        """A quick look, for where a search is one of many."""
        return replace(self, beam=2, branches=1, climbs=2, finalists=1, sweeps=2, pairs=0, pool=8, handovers=False)


@dataclass(frozen=True)
class ProofTuning:
    """How a proof spends its time.

    Attributes
    ----------
    a_try : float
        Share of the time for branch and bound before first-order steps have improved the bound. Most problems end
        in it.
    dual : float
        Share of what is left for these steps, where branch and bound is to follow.
    line_search : int
        Eigenproblems of a line search over rho; with 14 the ends of the bracket have a ratio of 1e-3.
    climb : Tuning
        How far a leaf of the tree climbs: a better point found early closes many nodes.
    """

    a_try: float = 0.2
    dual: float = 0.4
    line_search: int = 14
    climb: Tuning = field(default_factory=lambda: Tuning(steps=3, swaps=8))
