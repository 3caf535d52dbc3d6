"""Tell a SuperLink what to do: let sites in, start runs, see how they are doing."""

import json
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedspca.files import new_file
from fedspca.flower.commands import FlowerProcessError, environment, program

PROFILE = "fedspca"


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
    """Tell a SuperLink what to do, through Flower's own command line.

    Parameters
    ----------
    home : Path
        Flower's home; gets the profile that says where the SuperLink is.
    address : str
        The SuperLink's own address on this machine.
    authority : Path or None
        The authority's certificate; None for the simulation engine, which is spoken to without TLS on this machine.
    """

    def __init__(self, home: Path, address: str, authority: Path | None) -> None:
        self._home = Path(home)
        profile: dict[str, str | bool] = {"address": address}
        profile |= {"insecure": True} if authority is None else {"root-certificates": str(Path(authority).absolute())}
        with new_file(self._home / "config.toml") as draft:
            draft.write_text(
                f"[superlink]\ndefault = {json.dumps(PROFILE)}\n\n[superlink.{PROFILE}]\n" + _toml(profile),
                encoding="utf-8",
            )

    def register(self, public_key: Path, name: str | None = None) -> int:
        """Let the holder of this key connect; its node id, which stays tied to the key. The name is shown nowhere."""
        said = self._flwr("supernode", "register", str(public_key), PROFILE, *(["--name", name] if name else []))
        return int(said["node-id"])

    def unregister(self, node_id: int) -> None:
        """Let the holder of this node's key connect no more."""
        self._flwr("supernode", "unregister", str(node_id), PROFILE)

    def nodes(self) -> list[Node]:
        """The SuperNodes that are registered."""
        said = self._flwr("supernode", "list", PROFILE)
        return [Node(int(node["node-id"]), str(node["status"])) for node in said["nodes"]]

    def start_run(
        self,
        app: Path,
        settings: Mapping[str, str | int | float | bool] | None = None,
        simulated_nodes: int | None = None,
    ) -> int:
        """Start a run of an app with these settings, and in the simulation engine with so many nodes; its id."""
        overrides = self._home / "run.toml"  # on the command line Flower cannot read every string
        with new_file(overrides) as draft:
            draft.write_text(_toml(settings or {}), encoding="utf-8")
        more = ["--run-config", str(overrides)]
        if simulated_nodes is not None:
            more += ["--federation-config", f"num-supernodes={simulated_nodes} client-resources-num-cpus=1"]
        return int(self._flwr("run", str(app), PROFILE, *more)["run-id"])

    def run_status(self, run_id: int) -> Run:
        """How a run is doing."""
        (run,) = self._flwr("list", PROFILE, "--run-id", str(run_id))["runs"]
        return Run(run_id, str(run["status"]))

    def stop_run(self, run_id: int) -> None:
        """End a run before its time."""
        self._flwr("stop", str(run_id), PROFILE)

    def wait_for_run(self, run_id: int, seconds: float, poll: float = 1.0) -> Run:
        """Wait until a run is over; how it is doing then."""
        end = time.monotonic() + seconds
        while not (run := self.run_status(run_id)).over and time.monotonic() < end:
            time.sleep(poll)
        return run

    def _flwr(self, *arguments: str) -> dict[str, Any]:
        command = [program("flwr"), *arguments, "--format", "json"]
        done = subprocess.run(
            command,
            env=environment(self._home),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        try:
            said: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            said = {}
        if done.returncode or not said.get("success", True):
            reason = said.get("error-message") or (done.stderr or done.stdout).strip()[-2000:] or "it said nothing"
            raise FlowerProcessError(f"`flwr {' '.join(arguments[:2])}` failed: {reason}")
        return said


def _toml(settings: Mapping[str, str | int | float | bool]) -> str:
    # a scalar of JSON is one of TOML, if letters beyond ASCII stay as they are
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in settings.items())
