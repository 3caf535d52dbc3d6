"""With whom a site masks when the sites are many: with a few sites that it chooses at random, and those that chose it.

The contract
------------
With n sites, masks between all pairs cost each site n − 1 key streams a round. After Bell et al. (2020), each site
masks with few others. Whoever chooses the pairs could surround a site with its own allies. So nobody chooses for a
site: each one draws k others from its operating system before the run, signs the list together with its key of the run,
and goes on only if every site of its list is shown to it. Two sites are neighbours if one of them chose the other.

Only sums over *all* sites of the study use such a graph. A lost site is waited for, and nobody ever reveals a secret
of another site. A sum that may leave out lost sites needs masks between all pairs: a coordinator that says who is lost
could name all neighbours of one site, and be given the masks between them.

The bound
---------
Masks hide everything but the sum over the honest sites if the graph among them is connected. It is not connected if
there is a set of s honest sites, at most half of the h honest ones, without a neighbour among the other honest sites.
With c = n − h sites on the coordinator's side, the union bound over all such sets is

    Σ_{s ≤ h/2}  C(h, s) · [C(s − 1 + c, k) / C(n − 1, k)]ˢ · [C(n − 1 − s, k) / C(n − 1, k)]^(h − s):

sites in the set chose only each other and allies of the coordinator, and the other honest sites chose none of them.
What allies choose only adds neighbours. :func:`choices_of` returns the smallest k with a bound of 2⁻⁵⁰ for c = n/2. A
study has at most a thousand runs, so the bound is 2⁻⁴⁰ for the study.
"""

import math
import secrets
from functools import lru_cache

MANY = 50  # from here on, masks between all pairs cost more than they are worth
BITS = 50


def tolerated(sites: int) -> int:
    """Return how many sites may collude with the coordinator without weakening the masks of the others."""
    return sites // 2


def unsafe(sites: int, colluding: int, choices: int) -> float:
    """Return log₂ of the bound on the probability that the honest sites' graph is not connected."""
    honest = sites - colluding
    terms = [_isolated(sites, colluding, choices, size) for size in range(1, honest // 2 + 1)]
    largest = max(terms, default=-math.inf)
    if largest == -math.inf:
        return largest
    return (largest + math.log(sum(math.exp(term - largest) for term in terms))) / math.log(2)


def _isolated(sites: int, colluding: int, choices: int, size: int) -> float:
    """Return the logarithm of one term: the expected number of isolated sets of this size."""
    honest, ways = sites - colluding, _log_binomial(sites - 1, choices)
    inside = _log_binomial(size - 1 + colluding, choices) - ways
    outside = _log_binomial(sites - 1 - size, choices) - ways
    return _log_binomial(honest, size) + size * inside + (honest - size) * outside


def _log_binomial(n: int, k: int) -> float:
    return -math.inf if k > n else math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@lru_cache(maxsize=64)
def choices_of(sites: int) -> int:
    """Return how many neighbours each of so many sites chooses."""
    enough = (k for k in range(1, sites - 1) if unsafe(sites, tolerated(sites), k) <= -BITS)
    return next(enough, sites - 1)


def choices_for(sites: int, *, whole: bool) -> int:
    """Return how many neighbours a site of a study chooses; 0 where masks are between all pairs.

    Parameters
    ----------
    sites : int
        How many sites the study has.
    whole : bool
        Whether every sum is over all of them.
    """
    return choices_of(sites) if whole and sites >= MANY else 0


def chosen(names: list[str], own: str, count: int) -> list[str]:
    """Draw this site's neighbours from the operating system's randomness."""
    others = [name for name in names if name != own]
    return sorted(secrets.SystemRandom().sample(others, count))
