"""A run of a study as the terminal shows it: what happens, what came of it, and why it may have ended."""

import time
from collections.abc import Iterable, Mapping
from shutil import disk_usage
from typing import TYPE_CHECKING, Any

import typer

from fedspca.cli.fit import INTERRUPTED
from fedspca.cli.output import console, notes, print_json, visible
from fedspca.cli.show import print_loadings, summary

if TYPE_CHECKING:
    from fedspca.study.coordinator import StudyFolder

LEAST_SPACE = 1 << 20  # bytes of free disk space
SILENT = "the run ended without a word"


def follow(study: "StudyFolder", engine: Any, action: str, *, as_json: bool) -> None:
    """Begin an action, tell what happens, and show what came of it."""
    watch(study, engine, happening_in(study, engine, action), as_json=as_json)


def watch(study: "StudyFolder", engine: Any, happening: Iterable[Mapping[str, Any]], *, as_json: bool) -> None:
    """Tell what happens in a run, and show what came of it."""
    failed = SILENT
    try:
        for event in happening:
            _show(event)
            if event["event"] == "done":
                failed = ""
            elif event["event"] == "failed":
                failed = event["error"]
    except KeyboardInterrupt:
        told = (
            f"The run goes on without you. Watch it with: fedspca study resume {study.path}; stop it with: fedspca "
            f"study stop {study.path}"
        )
        notes().print(f"\n{told}", soft_wrap=True)
        if as_json:
            print_json({"error": told})
        raise typer.Exit(INTERRUPTED) from None
    if failed:
        silent = failed is SILENT or disk_usage(study.path).free < LEAST_SPACE
        raise ValueError(_why_silent(study, engine) if silent else failed)
    show_result(study, as_json=as_json)


def _why_silent(study: "StudyFolder", engine: Any) -> str:
    """Return why a run may have ended without a word: on a full disk it cannot leave one."""
    from fedspca.files import full_disk

    then = "" if engine.simulated else f"fedspca study resume {study.path}"
    if disk_usage(study.path).free < LEAST_SPACE:
        return f"{full_disk(study.path / 'events.jsonl')}: {then}"
    return f"The run ended without a result; the end of {engine.log} may say why. {then and f'Try: {then}'}"


def show_result(study: "StudyFolder", *, as_json: bool) -> None:
    """Show the model that a run made, and where it is."""
    from fedspca.model import SparsePCAModel

    model = SparsePCAModel.load(study.model)
    if as_json:
        print_json({**summary(model), "model": str(study.model)})
        return
    print_loadings(model, top=8)
    console().print(f"\nThe model is in {study.model}. Write a report: fedspca report {study.model}", soft_wrap=True)


def happening_in(study: "StudyFolder", engine: Any, action: str) -> Any:
    """Begin an action, and yield what happens in it."""
    from fedspca.study.engine import end_of_events

    start = end_of_events(study)
    return engine.follow(engine.begin(action), start)


def _show(event: Mapping[str, Any]) -> None:
    if event["event"] == "question":
        from fedspca.study.progress import in_words

        text = in_words(*(event[name] for name in ("number", "expected", "query", "seconds", "left")))
    elif event["event"] == "round" and event["objective"] is not None:
        text = f"round {event['number']} of the fit: objective {event['objective']:.6g}"
    elif event["event"] == "sites":
        text = "; ".join(f"{site}: {state}" for site, state in event["said"].items())
    elif event["event"] == "notice":
        text = event["text"]
    else:
        return
    notes().print(visible(text), soft_wrap=True)


def clock(when: float) -> str:
    """Return a time as a person reads it off a clock."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
