"""Tell a SuperLink what to do: register sites, start runs, and read their status.

Every command of Flower's own command line takes seconds, because it imports all of Flower. So this process uses the
Control protocol directly, with Flower's own client.
"""

import hashlib
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fedspca.flower.commands import FlowerProcessError, spare_loopback
from fedspca.flower.versions import check_flower

Request = TypeVar("Request")
Response = TypeVar("Response")


@dataclass(frozen=True)
class Node:
    """A SuperNode as the SuperLink knows it. ``status`` is registered, online, offline or unregistered."""

    node_id: int
    status: str


@dataclass(frozen=True)
class Run:
    """A run as the SuperLink knows it, such as ``"finished:completed"``."""

    run_id: int
    status: str

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status.startswith("finished")

    @property
    def completed(self) -> bool:
        """Whether it has ended well."""
        return self.status == "finished:completed"


class SuperLinkControl:
    """Tell a SuperLink what to do.

    Parameters
    ----------
    address : str
        The SuperLink's own address on this machine.
    authority : Path or None
        The authority's certificate; None for the simulation engine, which is spoken to without TLS on this machine.
    """

    def __init__(self, address: str, authority: Path | None) -> None:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

        check_flower()
        spare_loopback()
        certificate = None if authority is None else Path(authority).read_bytes()
        versions = [RuntimeVersionHttpInterceptor(component_name="flwr CLI")]
        self._client: ControlHttpClient = ControlHttpClient.from_server_address(
            address, authority is None, certificate, versions
        )

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> "SuperLinkControl":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def register(self, public_key: Path, name: str | None = None) -> int:
        """Let the holder of this key connect; return its node id, which stays the same. The name is not shown."""
        from cryptography.hazmat.primitives import serialization
        from flwr.proto.control_pb2 import RegisterNodeRequest

        key = serialization.load_ssh_public_key(Path(public_key).read_bytes())
        pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        return int(_asked(self._client.RegisterNode, RegisterNodeRequest(public_key=pem, name=name)).node_id)

    def unregister(self, node_id: int) -> None:
        """Do not let the holder of this node's key connect any more."""
        from flwr.proto.control_pb2 import UnregisterNodeRequest

        _asked(self._client.UnregisterNode, UnregisterNodeRequest(node_id=node_id))

    def nodes(self) -> list[Node]:
        """The SuperNodes that are registered."""
        from flwr.proto.control_pb2 import ListNodesRequest

        said = _asked(self._client.ListNodes, ListNodesRequest())
        return [Node(int(node.node_id), str(node.status)) for node in said.nodes_info]

    def start_run(
        self,
        app: Path,
        settings: Mapping[str, str | int | float | bool] | None = None,
        simulated_nodes: int | None = None,
    ) -> int:
        """Start a run of an app with these settings, and in the simulation engine with so many nodes; its id."""
        from flwr.cli.build import build_fab_from_disk
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.proto.federation_config_pb2 import SimulationConfig
        from flwr.supercore.fab import Fab

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about code inside Flower
            content = build_fab_from_disk(app)
        simulation = None
        if simulated_nodes is not None:
            simulation = SimulationConfig(num_supernodes=simulated_nodes, client_resources_num_cpus=1)
        request = StartRunRequest(
            fab=fab_to_proto(Fab(hashlib.sha256(content).hexdigest(), content, {})),
            override_config=user_config_to_proto(dict(settings or {})),
            override_federation_config=simulation,
        )
        return int(_asked(self._client.StartRun, request).run_id)

    def run_status(self, run_id: int) -> Run:
        """How a run is doing."""
        from flwr.proto.control_pb2 import ListRunsRequest

        status = _asked(self._client.ListRuns, ListRunsRequest(run_id=run_id)).run_dict[run_id].status
        return Run(run_id, ":".join(filter(None, (status.status, status.sub_status))))

    def stop_run(self, run_id: int) -> None:
        """End a run before its time."""
        from flwr.proto.control_pb2 import StopRunRequest

        _asked(self._client.StopRun, StopRunRequest(run_id=run_id))

    def wait_for_run(self, run_id: int, seconds: float, poll: float = 1.0) -> Run:
        """Wait until a run is over; how it is doing then."""
        end = time.monotonic() + seconds
        while not (run := self.run_status(run_id)).over and time.monotonic() < end:
            time.sleep(poll)
        return run


def _asked(call: Callable[[Request], Response], request: Request) -> Response:
    """What the SuperLink answers, or raise in words why it does not."""
    import httpx
    from flwr.supercore.error import FlowerError

    try:
        return call(request)
    except httpx.HTTPStatusError as error:
        said = FlowerError.from_json(error.response.text)
        reason = f"{said.message} {said.public_details or ''}".strip() if said else str(error)
    except (httpx.HTTPError, ValueError) as error:
        reason = f"it does not answer ({type(error).__name__}: {error})"
    raise FlowerProcessError(f"The study's server did not do what it was asked for: {reason}")
