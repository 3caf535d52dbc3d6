"""Who takes part in a run between machines, and who was lost."""

from collections.abc import Callable

from fedspca.federation.conversation import Conversation
from fedspca.site.agreement import Agreement


class Roster:
    """The sites of a run, asked by letters. ``lost`` says who is no longer asked, and why.

    Parameters
    ----------
    conversation : Conversation
        The run. Its agreement names the sites, the fewest that may be in a sum, and what happens when one is lost.
    sites : sequence of str, optional
        Who takes part; by default everyone whom the agreement names.
    notice : callable, optional
        Told in words what happens to sites.
    """

    def __init__(
        self,
        conversation: Conversation,
        *,
        sites: tuple[str, ...] | None = None,
        notice: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.sites = tuple(sorted(conversation.agreement.sites if sites is None else sites))
        self.lost: dict[str, str] = {}
        self._conversation = conversation
        self._notice = notice
        self._round = 0

    @property
    def n_sites(self) -> int:
        """How many sites take part."""
        return len(self.sites)

    @property
    def agreement(self) -> Agreement:
        """The terms of the study."""
        return self._conversation.agreement

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that the sites agreed on."""
        return self.agreement.features
