"""How much a search does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Effort of a search. Every number trades time for the chance of a better point.

    Attributes
    ----------
    first_wave : int
        Features that start first, by their row bounds. What they reach decides who else has to start.
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
        Pairs of columns that are given up and found anew, in each of the finalists' last solution.
    """

    first_wave: int = 8
    power_steps: int = 20
    chunk: int = 512
    refits: int = 64
    climbs: int = 6
    swaps: int = 24
    steps: int = 40
    beam: int = 6
    branches: int = 2
    pool: int = 40
    sweeps: int = 6
    finalists: int = 3
    pairs: int = 6
