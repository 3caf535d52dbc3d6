"""Sums over a sample of the rows without changes to a solver: each site's share is dealt by a seed.

Sums are multiplied by the number of parts. So they estimate the sums over all rows, and a solver needs no other
settings for the sample.
"""

from fedspca.federation.base import Aggregate, Around, Federation, FederationError
from fedspca.site.question import Query


class SampledFederation(Around):
    """Sites that are asked about one row in ``parts``.

    Parameters
    ----------
    federation : Federation
        Who answers.
    parts : int
        The number of parts into which each site deals its rows; the sample is one of them.
    deal : int
        The seed that assigns rows to parts.
    """

    def __init__(self, federation: Federation, parts: int, deal: int) -> None:
        super().__init__(federation)
        if not self.preparation.plain:
            raise FederationError(
                "A sample is of rows as they are: leave out the sample, or covariates, weights, the sites' own means, "
                "and transforms and choices of features that need all sites."
            )
        self.parts = parts
        self.deal = deal

    def sum(self, query: Query) -> Aggregate:
        """Ask about the sample, and return what the sum over all rows would be if all parts were alike."""
        answer = self._federation.sum(query.of_sample(self.parts, self.deal))
        scaled = {name: self.parts * array for name, array in answer.arrays.items()}
        return Aggregate(scaled, answer.n_sites, answer.bytes_up, answer.bytes_down)
