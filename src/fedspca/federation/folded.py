"""Sums by fold without changes to a solver: sites are asked by fold, the solver gets the total, the folds are kept.

A sum by fold needs no further pass over the rows and no further round. Answers are as many times larger as there are
folds.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca.federation.base import Aggregate, Around, Federation, FederationError
from fedspca.site.queries import ADDITIVE
from fedspca.site.question import Query

Array = NDArray[np.float64]


class Asked(NamedTuple):
    """A question, and its sums by fold."""

    query: Query
    arrays: Mapping[str, Array]


class FoldedFederation(Around):
    """Sites that are asked by fold wherever the answer is a sum over rows.

    Parameters
    ----------
    federation : Federation
        Who answers.
    folds : int
        The number of folds into which each site divides its rows.
    deal : int
        The seed that assigns rows to folds.
    """

    def __init__(self, federation: Federation, folds: int, deal: int) -> None:
        super().__init__(federation)
        if not self.preparation.plain:
            raise FederationError(
                "Folds are for rows as they are: leave out folds, or covariates, weights, the sites' own means, and "
                "transforms and choices of features that need all sites."
            )
        self.folds = folds
        self.deal = deal
        self.asked: list[Asked] = []

    def sum(self, query: Query) -> Aggregate:
        """Ask by fold, keep the sums, and return the sum over the folds."""
        if query.name not in ADDITIVE:
            return self._federation.sum(query)
        answer = self._federation.sum(query.by_fold(self.folds, self.deal))
        self.asked.append(Asked(query, answer.arrays))
        whole = {name: by_fold.sum(axis=0) for name, by_fold in answer.arrays.items()}
        return Aggregate(whole, answer.n_sites, answer.bytes_up, answer.bytes_down)
