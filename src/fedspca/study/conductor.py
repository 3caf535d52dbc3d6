"""Lead one action of a study, in a process that outlives the command which asked for it.

``fedspca study run`` may be closed while a run goes on. So the run is led by this process, which the command starts
and then watches through the study's events. Errors are written to these events too.
"""

import argparse
import contextlib
import json
from functools import partial
from pathlib import Path

from fedspca.flower.commands import LOOPBACK, FlowerProcessError
from fedspca.flower.control import SuperLinkControl
from fedspca.flower.grid_channel import FlowerChannel
from fedspca.flower.task import lead_run
from fedspca.study.coordinator import StudyFolder
from fedspca.study.flower_app import write_app
from fedspca.study.run import lead


def conduct(folder: StudyFolder, action: str) -> None:
    """Start a Flower run, take charge of it, and carry out the coordinator's action in it."""
    address = f"{LOOPBACK}:{folder.settings.control_port}"
    authority = folder.certificates.authority
    try:
        with SuperLinkControl(address, authority) as control:
            _stop_earlier(folder, control)
            number = control.start_run(write_app(folder.flower))
        folder.current_run.write_text(json.dumps({"run": number}), encoding="utf-8")
        with lead_run(address, authority, folder.secret, number) as grid:
            lead(folder.path, action, partial(FlowerChannel, grid))
    except FlowerProcessError as error:
        folder.tell("failed", error=str(error))
        raise
    folder.current_run.unlink(missing_ok=True)


def _stop_earlier(folder: StudyFolder, control: SuperLinkControl) -> None:
    """End the run of a conductor that was killed: Flower takes a while to notice that nobody leads it."""
    with contextlib.suppress(OSError, ValueError, KeyError, FlowerProcessError):
        control.stop_run(int(json.loads(folder.current_run.read_text(encoding="utf-8"))["run"]))


def main() -> None:
    """Carry out the action that the command gave to this process."""
    parser = argparse.ArgumentParser(description="Lead one action of a study.")
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--action", required=True)
    given = parser.parse_args()
    conduct(StudyFolder(given.study), given.action)


if __name__ == "__main__":
    main()
