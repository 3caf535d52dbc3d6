"""The same study between institutions: the coordinator's folder, each owner's folder, and what passes between them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["run_in_server", "simulated_endpoint"]


def run_in_server(folder: Path, action: str, make_channel: Callable[..., Any]) -> None:
    """Run one action of a study inside Flower's server process.

    Parameters
    ----------
    folder : Path
        The coordinator's folder.
    action : str
        ``status``, ``run`` or ``resume``, after a colon the seconds for which sites are waited for; or ``ping``, after
        a colon how often.
    make_channel : callable
        Given a letter that asks a site who it is, a function that reads the reply, and the numbers of the nodes whose
        sites are known, returns the way to the sites.
    """
    from fedspca.institutions.run import lead

    lead(folder, action, make_channel)


def simulated_endpoint(context: Any) -> Callable[[bytes], bytes]:
    """Return the door of the site that one node of Flower's simulation engine stands for."""
    from fedspca.institutions.simulation import endpoint_of

    return endpoint_of(Path(str(context.run_config["folder"])), int(context.node_config["partition-id"])).handle
