"""Flower on the coordinator's machine: start it, begin a run, follow it and stop it, without knowing Flower's flags."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from fedspca.files import new_file, remove_drafts
from fedspca.flower.certificates import Certificates, check_certificate
from fedspca.flower.commands import (
    LOOPBACK,
    FlowerProcessError,
    gateway_command,
    simulation_command,
    superlink_command,
)
from fedspca.flower.control import SuperLinkControl
from fedspca.flower.processes import (
    Process,
    listens,
    running,
    start_gateway,
    start_simulation,
    start_superlink,
    stop,
)
from fedspca.flower.reaching import try_certificate
from fedspca.study.coordinator import StudyFolder
from fedspca.study.flower_app import write_app

LOOK = 0.1  # seconds between looks at the study's events
ASK = 5.0  # seconds between questions to the simulation engine whether the run continues
TIDY = 20.0  # seconds that a leading process has to exit after its action is done
CONDUCTOR = "conductor"
RUNS, ENDS = ("run", "resume"), ("done", "failed")  # actions that are runs, and events that end one
Watch: TypeAlias = Callable[[], bool]


class Engine:
    """Flower on the coordinator's machine.

    Parameters
    ----------
    folder : StudyFolder
        The study.
    simulated : bool
        Whether all sites are on this machine, in Flower's simulation engine.
    """

    def __init__(self, folder: StudyFolder, *, simulated: bool = False) -> None:
        self._folder = folder
        self.simulated = simulated

    @property
    def log(self) -> Path:
        """The log that explains why a run ended without an event."""
        return self._folder.flower / ("simulation.log" if self.simulated else f"{CONDUCTOR}.log")

    def commands(self) -> list[list[str]]:
        """Return the plain commands that :meth:`start` runs."""
        study, certificates = self._folder.settings, self._folder.certificates
        if self.simulated:
            return [simulation_command(self._folder.flower / "simulation.sqlite", study.control_port)]
        return [
            superlink_command(
                certificates,
                self._folder.flower / "superlink.sqlite",
                study.control_port,
                secret=self._folder.secret,
            ),
            gateway_command(self._shown, study.port, study.control_port),
        ]

    def start(self) -> None:
        """Start Flower, unless it already runs, and register the sites whose replies are here."""
        study, certificates, home = self._folder.settings, self._folder.certificates, self._folder.flower
        if self.simulated:
            start_simulation(home, study.control_port)
            return
        check_certificate(certificates.certificate, authority=certificates.authority)
        if (wrong := try_certificate(self._folder.served, study.host)) is not None:
            raise FlowerProcessError(f"Sites would not trust this machine: {wrong}. Renew it: fedspca study renew.")
        for folder in (self._folder.path, home):
            remove_drafts(folder)
        for name, port in (("superlink", "control_port"), ("gateway", "port")):
            if running(home, name) is None:
                _check_free(getattr(study, port), port, self._folder.path)
        if running(home, "superlink") is None:
            stop(home, CONDUCTOR)  # a run does not outlive its server
            self._folder.current_run.unlink(missing_ok=True)
            start_superlink(home, certificates, study.control_port, self._folder.secret)
        if running(home, "gateway") is None:
            start_gateway(home, self._shown, study.port, study.control_port)
        self._register()

    @property
    def _shown(self) -> Certificates:
        """The gateway shows sites one certificate, and knows the server behind it by the study's own authority."""
        return self._folder.served._replace(authority=self._folder.certificates.authority)

    def stop(self) -> bool:
        """Stop Flower and all that it started; return whether it ran."""
        stop(self._folder.flower, CONDUCTOR)
        stopped = [stop(self._folder.flower, name) for name in self._processes]
        return any(stopped)

    @property
    def folder(self) -> StudyFolder:
        """The study."""
        return self._folder

    @property
    def conducted(self) -> bool:
        """Whether a process leads an action now."""
        return running(self._folder.flower, CONDUCTOR) is not None

    @property
    def runs(self) -> bool:
        """Whether Flower runs."""
        return all(running(self._folder.flower, name) is not None for name in self._processes)

    @property
    def _processes(self) -> tuple[str, ...]:
        return ("simulation",) if self.simulated else ("gateway", "superlink")

    def begin(self, action: str) -> Watch:
        """Start an action of the study; return a function that tells whether the action has ended."""
        if not self.runs:
            raise ValueError(f"The study is not started. Start it with: fedspca study start {self._folder.path}")
        return self._begin_simulated(action) if self.simulated else self._begin(action)

    def _begin(self, action: str) -> Watch:
        home = self._folder.flower
        end = time.monotonic() + TIDY
        while self._ended() and running(home, CONDUCTOR) is not None and time.monotonic() < end:
            time.sleep(LOOK)  # the previous process has reported its result, and is only closing its connections
        if (busy := running(home, CONDUCTOR)) is not None:
            raise ValueError(
                f"A run of this study goes on (process {busy}). Watch it with: fedspca study resume "
                f"{self._folder.path}; or end it with: fedspca study stop {self._folder.path}"
            )
        self._register()
        command = [sys.executable, "-m", "fedspca.study.conductor"]
        command += ["--study", str(self._folder.path), "--action", action]
        process = Process(CONDUCTOR, command, home, home / "home").start()
        return lambda: process.pid is None

    def going_on(self) -> tuple[Watch, int] | None:
        """Return what is needed to follow the current run from its beginning; None if there is no run."""
        home, begun = self._folder.flower, None
        position = 0
        for after, event in self._folder.events():
            if event["event"] == "begun":
                begun = (event["action"], position)
            elif event["event"] in ENDS:
                begun = None
            position = after
        if begun is None or begun[0] not in RUNS or running(home, CONDUCTOR) is None:
            return None
        return lambda: running(home, CONDUCTOR) is None, begun[1]

    def _ended(self) -> bool:
        """Whether the last event is the end of an action."""
        last = [event["event"] for _, event in self._folder.events()][-1:]
        return bool(last) and last[0] in ENDS

    def _begin_simulated(self, action: str) -> Watch:
        settings = {"folder": str(self._folder.path), "action": action}
        nodes = len(self._folder.settings.sites)
        with self._control() as control:
            number = control.start_run(write_app(self._folder.flower), settings, nodes)
        asked = time.monotonic()

        def over() -> bool:
            nonlocal asked
            if time.monotonic() - asked < ASK:
                return False
            asked = time.monotonic()
            with self._control() as control:
                return control.run_status(number).over

        return over

    def follow(self, over: Watch, start: int) -> Iterator[Mapping[str, Any]]:
        """Yield what happens in a run until it is over.

        Parameters
        ----------
        over : callable
            Tells whether the run has ended, as :meth:`begin` returned it.
        start : int
            Where in the file of events the run begins.
        """
        position = start
        while True:
            ended = over()  # checked before the events are read, so that the last events are not missed
            for after, event in self._folder.events(position):
                position = after
                yield event
                if event["event"] in ENDS:
                    return
            if ended:
                return
            time.sleep(LOOK)

    def _control(self) -> SuperLinkControl:
        address = f"{LOOPBACK}:{self._folder.settings.control_port}"
        authority = None if self.simulated else self._folder.certificates.authority
        return SuperLinkControl(address, authority)

    def _register(self) -> None:
        """Register the nodes of the sites that replied. The keys that are already registered are recorded in a file."""
        known, replies = self._folder.nodes(), self._folder.replies()
        new = {site: reply for site, reply in replies.items() if known.get(site, {}).get("key") != reply.node}
        if not new:
            return
        with self._control() as control:
            for site, reply in new.items():
                if site in known:
                    control.unregister(known[site]["node"])
                key = self._folder.flower / "nodes" / f"{site}.pub"
                key.parent.mkdir(parents=True, exist_ok=True)
                key.write_text(reply.node, encoding="ascii")
                known[site] = {"key": reply.node, "node": control.register(key, site)}
                with new_file(self._folder.registered) as draft:
                    draft.write_text(json.dumps(known), encoding="utf-8")


def _check_free(port: int, name: str, folder: Path) -> None:
    """Say in words that a port is taken; Flower's own log says it among twenty other lines."""
    if listens(LOOPBACK, port):
        hint = " Sites then need new invitations, since theirs name the old one." if name == "port" else ""
        raise FlowerProcessError(
            f"Port {port} of this machine is in use, perhaps by another study. Stop what uses it, or choose another "
            f"{name} in {folder / 'study.toml'}.{hint}"
        )


def end_of_events(folder: StudyFolder) -> int:
    """Return the position in the file of events at which the next event will be written."""
    path: Path = folder.path / "events.jsonl"
    return path.stat().st_size if path.exists() else 0
