"""A federation for simulations, which can read the sites' loadings and can treat rows as already centred."""

import numpy as np
from numpy.typing import NDArray

from fedspca.federation import Aggregate, LocalFederation
from fedspca.metrics import alignment
from fedspca.site import Query, Site
from fedspca.site.queries import AVERAGED

Array = NDArray[np.float64]


class SimulatedFederation(LocalFederation):
    """Sites in this process, one for each owner, whose loadings an experiment can read.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows of all sites.
    owners : ndarray of shape (n,)
        The site that owns each row.
    watch : bool, default=False
        After every consensus round, record the paper's alignment of workers, for each loading: the average over
        pairs of sites of the absolute cosine. This needs the loadings of each site, which a site never sends. Here
        they are read from the sites' memory.
    centred : bool, default=False
        Treat the rows as already centred: the sum of each feature is reported as 0, and no mean is subtracted.
    """

    def __init__(self, rows: Array, owners: NDArray[np.str_], *, watch: bool = False, centred: bool = False) -> None:
        super().__init__([Site(str(name), rows[owners == name]) for name in np.unique(owners)], n_threads=1)
        self.watch = watch
        self.centred = centred
        self.alignments: list[Array] = []  # one array per round, one number per loading

    def sum(self, query: Query) -> Aggregate:
        """Ask every site and, if ``watch`` is set, record the alignment of workers."""
        answer = super().sum(query)
        if self.watch and query.name in AVERAGED:
            self.alignments.append(self._alignment())
        mean = {"moments": "sums", "deviations": "offsets"}.get(query.name)
        if self.centred and mean is not None:
            arrays = {**answer.arrays, mean: np.zeros_like(answer[mean])}
            return Aggregate(arrays, answer.n_sites, answer.bytes_up, answer.bytes_down)
        return answer

    def _alignment(self) -> Array:
        states = [site._state for site in self.sites]
        loadings = np.stack([state.w.T for state in states if state is not None])
        return np.array([alignment(loadings[:, [j]]) for j in range(loadings.shape[1])])
