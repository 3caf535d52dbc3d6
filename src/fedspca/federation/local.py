"""The sum over sites in this process; sites answer on threads."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import ThreadpoolController

from fedspca.federation.base import (
    Aggregate,
    FederationError,
    add_in_order,
    check_same_features,
    check_same_preparation,
)
from fedspca.site.preparation import Preparation
from fedspca.site.question import Query, Terms
from fedspca.site.site import Site

THREADS_PAY = 1 << 20  # below this many numbers per site, starting a thread costs more than the work itself


class LocalFederation:
    """Sites in this process. The sum has the same bits whatever the order in which they are given or answer.

    Parameters
    ----------
    sites : iterable of Site
        The sites, with different names and the same features.
    n_threads : int, optional
        How many sites answer at a time. By default as many as there are cores if the sites are large, else one:
        for small sites, threads cost more time than they save.
    """

    def __init__(self, sites: Iterable[Site], *, n_threads: int | None = None) -> None:
        self.sites = tuple(sites)
        if not self.sites:
            raise FederationError("A federation needs at least one site.")
        names = [site.name for site in self.sites]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise FederationError(f"Sites must have different names; given more than once: {', '.join(twice)}.")
        self._feature_names = check_same_features({site.name: site.feature_names for site in self.sites})
        self._preparation = check_same_preparation({site.name: site.preparation for site in self.sites})
        largest = max(site.n_rows * site.n_features for site in self.sites)
        wanted = n_threads or ((os.cpu_count() or 1) if largest > THREADS_PAY else 1)
        self.n_threads = min(wanted, len(self.sites))
        self._blas = ThreadpoolController() if self.n_threads > 1 else None

    def __repr__(self) -> str:
        return f"LocalFederation({self.n_sites} sites, {len(self.feature_names)} features)"

    @property
    def n_sites(self) -> int:
        """How many sites take part."""
        return len(self.sites)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that all sites share."""
        return self._feature_names

    @property
    def local(self) -> bool:
        """No message leaves this machine."""
        return True

    @property
    def single(self) -> bool:
        """Whether every site stores its rows in single precision, and multiplies them so when asked."""
        return all(site.single for site in self.sites)

    @property
    def preparation(self) -> Preparation:
        """How the sites see their rows before anything is asked."""
        return self._preparation

    def answers_gram(self) -> bool:
        """Whether every site's policy allows the whole covariance to be asked for."""
        return all(site.policy.allows_gram(site.n_features) for site in self.sites)

    def most_directions(self) -> int | None:
        """About how many directions one question may ask, by the strictest policy; None without a limit."""
        return min((site.policy.max_components for site in self.sites if site.policy.max_components), default=None)

    def sampled(self, parts: int, seed: int) -> "LocalFederation":
        """Return sites that hold one of so many parts of each site's rows."""
        return LocalFederation([site.sampled(parts, seed) for site in self.sites], n_threads=self.n_threads)

    def expect(self, columns: int) -> None:
        """Say to every site by about how many columns its rows will be multiplied in all."""
        for site in self.sites:
            site.expect(columns)

    def sum(self, query: Query) -> Aggregate:
        """Ask every site and return the sum of their terms."""
        return add_in_order(self._ask(query), query)

    def _ask(self, query: Query) -> Iterator[tuple[str, Terms]]:
        """Each site's terms, in the order of their names, so that the sum has the same bits whoever answers first."""
        ordered = sorted(self.sites, key=lambda site: site.name)
        if self._blas is None:
            for site in ordered:
                yield site.name, site.answer(query)
            return
        # each site's products would otherwise start as many BLAS threads as there are cores
        cores = max(1, (os.cpu_count() or 1) // self.n_threads)
        with self._blas.limit(limits=cores, user_api="blas"), ThreadPoolExecutor(self.n_threads) as pool:
            yield from pool.map(lambda site: (site.name, site.answer(query)), ordered)
