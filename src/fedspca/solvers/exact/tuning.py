"""How much each problem's search does on a model of S. Every number trades time, or rounds, for better points.

``python -m benchmarks exact`` shows what rounds and points become of the cardinality problem and of the share of
variance, ``python -m benchmarks basins`` of the penalised one. Tolerances of the mathematics stand beside it instead.
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
        Features in sight of a search, for each component, if the cardinality asks for no more. More find clusters far
        from the leading eigenvectors; a search takes as much longer.
    behind : float
        A start that explains less than this share of the best is not asked about: it seldom wins, and teaches little.
    large : int
        Non-zeros beyond which power steps replace an eigenproblem, and swaps are left out: they change little there.
    few : float
        Share of a support that may still change when a first search for it ends.
    steps : int
        Power steps that stand for an eigenproblem.
    settled : float
        A power step that gains less, of the variance, is the last.
    worth : float
        A gain, of the variance, beyond which the other columns are updated again.
    upset : float
        A gain beyond which swaps that have failed on them are tried again.
    walk : int
        Power steps between two refits.
    refits, rough_refits : int
        The most refits of a column at a time; and where points are only to be ranked.
    weak : int
        Weakest entries, and best-scored ones outside, among whose pairs swaps are looked for.
    swaps : int
        Exchanges of two entries that an update tries, once power steps change the support no more.
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
        Features in sight of a search, if the first guess asks for no more.
    large : int
        Non-zeros, or rows, beyond which refits and the predictor cost more than they save.
    rough : float
        Residual to which trials are refitted: a tighter one finds hardly a zero more.
    margin : float
        Share kept beyond what is asked: the reference still grows a little while the last rounds are asked.
    patience : float
        A round is asked for only if it promises this share of zeros more.
    trials, first_trials : int
        Numbers of non-zeros that are tried; and at a first look, which only has to show the model sparse columns.
    within, last_within : int
        Bisection ends when no more than one non-zero in so many could still go; and so in the last rounds.
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
    """The search of the penalised problem. More of anything finds better basins now and then, and takes longer.

    Set by ``basins`` and on correlated noise with 1 to 20 components.

    Attributes
    ----------
    features : int
        Heaviest features from which a column starts. A power step costs a product with as many columns.
    power_steps : int
        Thresholded power steps from each feature: enough to tell which clusters are best, not to solve.
    paths : int
        Starts that are built of single columns: each begins with another column, and goes on greedily.
    split_steps : int
        Steps of alternating directions for all starts at once, before they are ranked.
    solved : int
        Best starts that are solved to ``rough``: what finds basins, and most of the time.
    rough, fine : float
        Residuals to which starts are solved before, and after, the best of them is known.
    steps : int
        The most proximal steps of such a solve.
    exchanges : int
        Times that columns of the best point are exchanged, while that gains.
    columns : int
        Columns, the best beside the others, that are tried in the place of each; pairs of columns that are turned.
    planes : int
        Components up to which three times as many are: there are few pairs, and they are turned at once.
    basins : int
        Columns, the best alone, that are tried in the place of each.
    trials : int
        The most points with exchanged columns that go through alternating directions, those without the worst first.
    turns : int
        The most rotations to start from; in the plane, where none are handed over, so many are spread evenly.
    easy : int
        r³ up to which all this is done. Beyond, counts shrink in proportion, so that time grows mildly with r.
    some : int
        Components up to which no fewer starts are solved, nor less exactly.
    wide : int
        Features in sight up to which all this is done. Beyond, columns start from fewer of them in proportion, and
        other counts shrink as the root: the model is then only a guess of S, and is searched again as it gets better.
    kept : int
        Points that are asked about together, where the model is not all of S.
    many : int
        Components beyond which there are fewer rounds of search, and half as many points in each.
    rows : int
        Features in sight of a search, for each component, even if fewer look likely.
    likely : float
        Share of lam beyond which the gradient of a feature makes it likely.
    entering : float
        Share of lam beyond which the gradient of an entry says that it may enter; asked about until settled.
    settled : float
        Residual below which the support is all but found.
    alike : float
        Cosine beyond which two columns are taken for one.
    deadline : float
        When, by ``time.monotonic()``, no further start is solved: the best by then is the answer.
    """

    features: int = 150
    power_steps: int = 8
    paths: int = 3
    split_steps: int = 25
    solved: int = 16
    rough: float = 1e-2
    fine: float = 3e-3
    steps: int = 40
    exchanges: int = 3
    columns: int = 2
    planes: int = 3
    basins: int = 8
    trials: int = 60
    turns: int = 12
    easy: int = 500
    some: int = 10
    wide: int = 200
    kept: int = 8
    many: int = 6
    rows: int = 100
    likely: float = 0.7
    entering: float = 0.8
    settled: float = 1e-4
    alike: float = 0.99
    deadline: float = math.inf

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self.deadline

    def at(self, d: int, r: int) -> Self:
        """The same for d features in sight and r components, as much as these are worth."""
        if r == 1:  # a column alone is its own solution: steps to the end cost little, and tell basins apart
            return replace(self.at(d, 2), power_steps=5 * self.power_steps, basins=3 * self.basins)
        share = min(1.0, self.easy / r**3)
        wide = min(1.0, self.wide / d)

        def part(count: int, least: int, share: float = share * wide**0.5) -> int:
            return max(least, round(share * count))

        return replace(
            self,
            features=part(self.features, min(self.features, 40), share * wide),
            paths=part(self.paths, 1),
            solved=part(self.solved, 3, min(1.0, (self.some / r) ** 2) * wide**0.5),
            steps=part(self.steps, 10, min(1.0, 1.5 * self.some / r)),
            exchanges=part(self.exchanges, 1),
            columns=part(self.columns, 1) if r > self.planes else 3 * self.columns,
            basins=part(self.basins, 1),
            trials=part(self.trials, 6),
            turns=part(self.turns, 4, share),
        )
