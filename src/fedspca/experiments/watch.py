"""Federations for simulations: one that looks at its sites' loadings, one that takes rows as centred already."""

import numpy as np
from numpy.typing import NDArray

from fedspca.federation import Aggregate, LocalFederation
from fedspca.metrics import alignment
from fedspca.site import Query, Site
from fedspca.site.queries import AVERAGED

Array = NDArray[np.float64]


class SimulatedFederation(LocalFederation):
    """Sites in this process, one for each owner, whose loadings an experiment may look at.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        The rows of all sites.
    owners : ndarray of shape (n,)
        The site that owns each row.
    watch : bool, default=False
        After every consensus round, record the paper's alignment of workers, for each loading: the average over
        pairs of sites of the absolute cosine. It needs each site's own loadings, which never travel; here they are
        read from the sites' memory.
    centred : bool, default=False
        Take the rows as centred already: the sum of each feature is reported as 0, and no mean is subtracted.
    """

    def __init__(self, rows: Array, owners: NDArray[np.str_], *, watch: bool = False, centred: bool = False) -> None:
        super().__init__([Site(str(name), rows[owners == name]) for name in np.unique(owners)], n_threads=1)
        self.watch = watch
        self.centred = centred
        self.alignments: list[Array] = []  # one array a round, one number a loading

    def sum(self, query: Query) -> Aggregate:
        """Ask every site, and look."""
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
