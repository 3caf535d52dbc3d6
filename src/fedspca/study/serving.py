"""Keep a study's server running, for service managers: restart it when it ends, and resume an interrupted run."""

import threading
from collections.abc import Callable

from fedspca.study.engine import ENDS, RUNS, Engine

LOOK = 1.0  # seconds between looks


def serve(engine: Engine, tell: Callable[[str], object], stop_asked: threading.Event) -> None:
    """Keep the server running until asked to stop, and stop it then."""
    try:
        while not stop_asked.is_set():
            if not engine.runs:
                tell("The study's server is started.")
                engine.start()
            if was_cut_off(engine):
                tell("A run was cut off; it goes on.")
                engine.begin("resume")
            stop_asked.wait(LOOK)
    finally:
        engine.stop()


def was_cut_off(engine: Engine) -> bool:
    """Return whether a run has not ended but no process leads it, as after a crash or a power failure."""
    if engine.conducted or not engine.folder.journal.exists():
        return False
    begun = False
    for _, event in engine.folder.events():
        if event["event"] == "begun":
            begun = event["action"] in RUNS
        elif event["event"] in ENDS:
            begun = False
    return begun
