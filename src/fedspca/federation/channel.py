"""How letters reach sites. A channel moves bytes and does not know what they mean."""

from collections.abc import Mapping
from typing import Protocol

from fedspca.door.endpoint import Endpoint


class Channel(Protocol):
    """A way to the sites of a study."""

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that can be reached now, in the order of their names."""

    def exchange(self, letters: Mapping[str, bytes], deadline: float) -> dict[str, bytes]:
        """Send each site its letter; return the replies that came within so many seconds, by site."""


class LocalChannel:
    """Sites in this process.

    Parameters
    ----------
    endpoints : mapping of str to Endpoint
        The sites' endpoints, which receive letters, by name.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        self.endpoints = dict(endpoints)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites, in the order of their names."""
        return tuple(sorted(self.endpoints))

    def exchange(self, letters: Mapping[str, bytes], deadline: float) -> dict[str, bytes]:
        """Hand each site its letter and return the replies; sites in this process are never late."""
        return {site: self.endpoints[site].handle(letter) for site, letter in letters.items() if site in self.endpoints}
