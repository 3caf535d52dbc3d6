"""How much each problem's search does on a model of S. Every number trades time, or rounds, for better points.

``python -m benchmarks exact`` shows rounds and solutions for the cardinality problem and the share of variance;
``python -m benchmarks basins`` does so for the penalised problem. Numerical tolerances are not here but next to the
code that uses them.
"""

import math
import time
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True)
class CardinalityTuning:
    """The search under a cardinality constraint, on a model. Set on WDBC* and the weak spikes of ``exact``.

    Attributes
    ----------
    rows : int
        Number of features that a search considers, per component, unless the cardinality needs more. More features find
        clusters far from the leading eigenvectors, but the search takes longer in proportion.
    behind : float
        A start that explains less than this share of the best is not asked about: it seldom wins, and adds little to
        the model.
    large : int
        With more non-zeros than this, power steps replace an eigenproblem, and swaps are left out: they change little.
    few : float
        Share of a support that may still change when a first search for it ends.
    steps : int
        Power steps that replace an eigenproblem.
    settled : float
        A power step that gains less than this share of the variance is the last.
    worth : float
        If a column gains more than this share of the variance, the other columns are updated again.
    upset : float
        If a column gains more than this share, swaps that failed in the other columns are tried again.
    walk : int
        Power steps between two refits.
    refits, rough_refits : int
        The most refits of a column in one update; ``rough_refits`` applies if points are only to be ranked.
    weak : int
        Swaps are searched among this many weakest entries and as many entries outside with the best scores.
    swaps : int
        Exchanges of two entries that an update tries, after power steps no longer change the support.
    sweeps : int
        The most times that all columns are updated in turn.
    """

    rows: int = 150
    behind: float = 0.97
    large: int = 64
    few: float = 0.02
    steps: int = 10
    settled: float = 1e-5
    worth: float = 2e-6
    upset: float = 3e-4
    walk: int = 5
    refits: int = 12
    rough_refits: int = 3
    weak: int = 6
    swaps: int = 2
    sweeps: int = 6

    def ranking(self, sweeps: int) -> Self:
        """The same where points are only to be ranked: few refits, and no swaps."""
        return replace(self, refits=self.rough_refits, swaps=0, sweeps=sweeps)


@dataclass(frozen=True)
class VarianceTuning:
    """The search for the sparsest loadings that keep a share of the variance. Set on WDBC* and W1 to W7.

    Attributes
    ----------
    rows : int
        Number of features that a search considers, unless the first guess needs more.
    large : int
        Non-zeros, or rows, beyond which refits and the predictor cost more than they save.
    rough : float
        Residual to which trials are refitted: a smaller one finds hardly any more zeros.
    margin : float
        Share of variance kept in addition to the target: the reference still grows a little in the last rounds.
    patience : float
        A further round is asked only if it is predicted to remove at least this share of the non-zeros.
    trials, first_trials : int
        How many numbers of non-zeros are tried; ``first_trials`` applies to the first search, which only has to provide
        sparse columns for the model.
    within, last_within : int
        Bisection ends when at most one non-zero in this many could still be removed; ``last_within`` applies to the
        last rounds.
    """

    rows: int = 400
    large: int = 5000
    rough: float = 3e-3
    margin: float = 1e-4
    patience: float = 0.01
    trials: int = 9
    first_trials: int = 3
    within: int = 64
    last_within: int = 256

    def to_the_end(self) -> Self:
        """The same for the last rounds."""
        return replace(self, within=self.last_within)


@dataclass(frozen=True)
class PenalisedTuning:
    """The search of the penalised problem. Larger numbers sometimes find better local optima, and take longer.

    Set by ``basins`` and on correlated noise with 1 to 20 components.

    Attributes
    ----------
    features : int
        Heaviest features from which a column starts. A power step costs a product with as many columns.
    power_steps : int
        Thresholded power steps from each feature: enough to find the best clusters, not to converge.
    paths : int
        Starts that are built of single columns: each begins with another column, and goes on greedily.
    split_steps, until, soon : int
        Steps of ADMM for all starts at once, before they are ranked; ``until`` applies beyond ``some`` components:
        there a step of ADMM is far cheaper than a proximal step, and ADMM finds the support. It shrinks with ``wide``.
        ``soon`` applies in a hurry: ADMM goes on from the best one.
    settling : int
        The most steps of ADMM from the best of them, beyond ``some`` components.
    crowd, early_crowd, late_crowd, last_crowd : tuple of (int, int)
        After so many of these steps, so many starts continue, the best; ``late_crowd`` applies beyond ``few``
        components, ``early_crowd`` up to ``few`` from ``small`` weights on, where products take most of the time and
        starts differ soon, ``last_crowd`` in a hurry.
    few : int
        With at most this many components, few starts are solved: rough objectives rank them well.
    middle : int
        With at most this many components there is one path: further ones never led to a better point, on 1,402 problems
        with two or three components and on 186 with four or five. With more components they do.
    solved : int
        Best starts that are solved to ``rough``, each unlike the others; twice as many beyond ``few`` components, and
        four times as many beyond ``middle``.
    starts_too : bool
        Whether starts compete with the points that ADMM makes of them, and not only a start that is better than all of
        these.
    near : float
        No start is solved whose rough objective is worse than the best by more than this, relative to the variance;
        more where the penalty takes away most of the variance, twice as much up to ``few`` components, and five times
        as much from ``several`` on.
    rough, fine : float
        Residuals to which starts are solved before, and after, the best of them is known.
    steps, last_steps, dear_steps : int
        The most proximal steps of such a solve, and of the last one; the latter is ``dear_steps`` beyond twice ``some``
        components, where ADMM did not settle.
    thin : int
        Pairs of entries in one row, over all rows, up to which proximal steps are fast for any number of components.
    exchanges : int
        Times that columns of the best point are exchanged, while that gains.
    glance : int
        Steps of ADMM from the leading eigenvectors that tell how much a search can gain.
    little : float
        With a smaller possible gain there are very few starts, and no columns are exchanged.
    small : int
        With fewer weights in all, every search is fast: how much it can gain is then not asked, columns are exchanged
        with two components too, and the last Newton steps are taken on all digits of S. A search for two components
        over the ``most`` features has as many, and counts as large.
    plain : float
        If the penalty leaves less than this share of the variance, no start is dropped early.
    promising : float
        Points with exchanged columns are given up if ADMM leaves them worse than the best by more than this, relative
        as for ``near``.
    gaining : float
        An exchange that gains less than this share of the objective is the last.
    columns : int
        Columns, the best beside the others, that are tried in the place of each; pairs of columns that are turned.
    planes : int
        With at most this many components, three times ``columns`` are tried: there are few pairs, and turning them is
        fast.
    basins : int
        Columns, the best alone, that are tried in the place of each.
    singled : int
        Points that ADMM treats in which a heavy feature of some column becomes a column of its own, the best ones.
    merged : int
        Points that ADMM treats in which two columns become one, and a single feature takes the place of the second, the
        best ones. Both are set on 7,158 problems of 1,193 public matrices: with fewer some end 2 % above the best
        known, with more hardly any is better.
    partitions : int
        Further starts, whose columns divide the features at random, where there is time for a proof. They are left out
        from ``small`` weights on, and beyond ``some`` components.
    trials : int
        The most points with exchanged columns that ADMM treats; the worst column is exchanged first.
    turns : int
        The most rotations to start from. For two components, if no rotations are given, this many are evenly spaced.
    easy : int
        The numbers above apply in full while r³ is at most this. For larger r they shrink in proportion, so that time
        grows slowly with r.
    some, proximal : int
        Beyond ``some`` components ADMM takes more steps before starts are ranked. With at most ``proximal`` components
        starts are then solved by proximal and Newton steps; beyond it by ADMM. If little can be gained, ``some``
        applies instead of ``proximal``.
    several : int
        With at most this many components, the number of starts solved is not reduced.
    wide : int
        The numbers above apply in full up to this many features. With more, ``features`` shrinks in proportion, and
        other numbers shrink as the square root: the model is then only a rough estimate of S, and is searched again as
        it improves.
    kept : int
        Points that are asked together, if the model does not equal S yet.
    many : int
        Components beyond which there are fewer rounds of search, and half as many points in each.
    rows : int
        The least number of features that a search considers, per component.
    most, least : int
        The most features that a search considers, or ``least`` per component, if that is more. The point that it finds
        is then solved over all features.
    dear : int
        Weights in all, times components, beyond which a search with more than twice ``some`` components is in a hurry.
    hurried : bool
        Whether it is: few starts, no proximal steps, and some more non-zeros where ADMM does not settle.
    enlarged : int
        Times that features are added to those of a search, at most, before the point is taken as it is.
    nearly : float
        A feature whose gradient falls short of lam by less than this share of it is added too.
    likely : float
        A feature is likely to enter if its gradient exceeds this share of lam.
    entering : float
        An entry may enter if its gradient exceeds this share of lam; such entries are asked until convergence.
    settled : float
        Residual below which the support is almost final.
    alike : float
        Two columns count as the same if their cosine exceeds this.
    deadline : float
        Time, by ``time.monotonic()``, after which no further start is solved. The best point so far is returned.
    """

    features: int = 150
    power_steps: int = 8
    paths: int = 3
    split_steps: int = 50
    until: int = 600
    soon: int = 100
    settling: int = 1500
    crowd: tuple[tuple[int, int], ...] = ((16, 24), (32, 8))
    early_crowd: tuple[tuple[int, int], ...] = ((6, 12), (16, 8), (32, 4))
    late_crowd: tuple[tuple[int, int], ...] = ((16, 32), (32, 16), (60, 2))
    last_crowd: tuple[tuple[int, int], ...] = ((8, 2), (24, 1))
    few: int = 3
    middle: int = 5
    solved: int = 4
    starts_too: bool = False
    rough: float = 1e-2
    fine: float = 3e-3
    steps: int = 40
    last_steps: int = 200
    dear_steps: int = 8
    thin: int = 1_000
    exchanges: int = 3
    near: float = 0.01
    glance: int = 30
    little: float = 0.02
    small: int = 800
    plain: float = 0.3
    promising: float = 0.05
    gaining: float = 1e-4
    columns: int = 2
    planes: int = 3
    basins: int = 8
    singled: int = 8
    merged: int = 6
    partitions: int = 0
    trials: int = 60
    turns: int = 12
    easy: int = 500
    some: int = 10
    proximal: int = 20
    several: int = 8
    wide: int = 200
    kept: int = 8
    many: int = 6
    rows: int = 100
    most: int = 400
    least: int = 12
    dear: int = 300_000
    hurried: bool = False
    enlarged: int = 6
    nearly: float = 0.1
    likely: float = 0.7
    entering: float = 0.8
    settled: float = 1e-4
    alike: float = 0.99
    deadline: float = math.inf

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline

    def thorough(self) -> Self:
        """The same where rough objectives say little: more starts, none of them dropped early, and more are solved."""
        return replace(self, crowd=(), gaining=0.0, turns=4 * self.turns, solved=4 * self.solved, starts_too=True)

    def in_a_hurry(self) -> Self:
        """The same where every step of ADMM takes long: fewer starts, and fewer steps before they are ranked."""
        steps, settling = min(self.split_steps, self.soon), min(self.settling, self.until)
        return replace(
            self, turns=0, paths=0, crowd=self.last_crowd, split_steps=steps, settling=settling, hurried=True
        )

    def plainest(self) -> Self:
        """The same where little can be gained: only the plainest starts, and the best of them is solved."""
        steps = min(self.split_steps, 100)
        return replace(self, turns=0, paths=0, exchanges=0, solved=1, split_steps=steps, proximal=self.some)

    def at(self, d: int, r: int) -> Self:
        """The numbers for a search over d features and r components, reduced for large problems."""
        if r == 1:  # for one column, full convergence costs little and separates local optima
            return replace(self.at(d, 2), power_steps=5 * self.power_steps, basins=3 * self.basins)
        share = min(1.0, self.easy / r**3)
        large = r <= self.few and d * r >= self.small
        wide = min(1.0, self.wide / d)

        def part(count: int, least: int, share: float = share * wide**0.5) -> int:
            return max(least, round(share * count))

        return replace(
            self,
            features=part(self.features, min(self.features, 40), share * wide),
            paths=1 if r <= self.middle else part(self.paths, 1),
            steps=part(self.steps, 10, min(1.0, 1.5 * self.some / r)),
            exchanges=part(self.exchanges, 1),
            columns=part(self.columns, 1) if r > self.planes else 3 * self.columns,
            basins=part(self.basins, 1),
            singled=part(self.singled, 4),
            merged=part(self.merged, 2),
            trials=part(self.trials, 6),
            turns=part(self.turns, 4, share),
            near=self.near * (2.0 if r <= self.few else 1.0 if r < self.several else 5.0),
            crowd=self.early_crowd if large else self.crowd if r <= self.few else self.late_crowd,
            split_steps=self.split_steps if r <= self.some else part(self.until, self.split_steps, wide),
            solved=self.solved
            if r <= self.few
            else 2 * self.solved
            if r <= self.middle
            else part(4 * self.solved, 2, min(1.0, (self.several / r) ** 2) * wide**0.5),
        )
