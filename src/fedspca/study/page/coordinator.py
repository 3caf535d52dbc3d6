"""The coordinator's page: which sites are connected, the progress of the run, and the report at the end."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from fedspca.letters.identity import fingerprint
from fedspca.model import SparsePCAModel
from fedspca.report import report_html
from fedspca.report.markup import Markup, join, tag
from fedspca.study.coordinator import StudyFolder
from fedspca.study.engine import ENDS, RUNS, Engine
from fedspca.study.page.owner import _heading, _table
from fedspca.study.progress import in_words
from fedspca.study.words import sparsity_in_words

SHOWN = 100  # events that are shown
READY = "approved"


class CoordinatorPage:
    """What the coordinator sees and does.

    Parameters
    ----------
    folder : StudyFolder
        The coordinator's folder.
    """

    def __init__(self, folder: StudyFolder) -> None:
        self._folder, self._engine = folder, Engine(folder)
        self._told: tuple[int, list[str]] = (0, [])  # when the model was written, and what is to be told of it
        self._position, self._events = 0, list[Mapping[str, Any]]()
        self.title = f"Study {folder.settings.name}: coordinator"

    def parts(self) -> Mapping[str, str]:
        """Return the parts of the page as they now are."""
        for position, event in self._folder.events(self._position):
            self._position = position
            self._events.append(event)
        runs = self._engine.runs
        return {
            "standing": _standing(runs, self._folder.settings.port),
            "study": self._study(),
            "sites": self._sites(runs),
            "progress": _progress(self._events, goes_on=self._engine.going_on() is not None),
            "result": self._result(),
            "happened": _happened(self._events),
        }

    def act(self, action: str, given: Mapping[str, str]) -> str:
        """Ask the sites for their status, start a run, or resume one."""
        del given
        if action == "ask":
            self._engine.begin("status")
            return "The sites are being asked."
        if action not in RUNS:
            raise ValueError(f"There is no action {action!r}.")
        self._engine.begin(action)
        return "The run begins." if action == "run" else "The run goes on."

    def document(self, name: str) -> str:
        """Return the report of the result."""
        if name != "report" or not self._folder.finished:
            raise KeyError(name)
        return report_html(SparsePCAModel.load(self._folder.model))

    def _study(self) -> Markup:
        study = self._folder.settings
        words = f"{study.components} sparse principal components ({sparsity_in_words(study.fit_settings())})"
        masks = "Terms are masked: you see sums over all sites only." if study.masked else "Terms are NOT masked."
        return join(_heading(f"Study {study.name}"), tag("p", f"{words}, solver {study.solver}. {masks}"))

    def _sites(self, runs: bool) -> Markup:
        replies, said = self._folder.replies(), self._said()
        rows = []
        for site in self._folder.settings.sites:
            state = said.get(site, "not asked yet") if site in replies else "its reply is not here yet"
            key = fingerprint(replies[site].public) if site in replies else ""
            rows.append((site, tag("span", state, class_=_mood(state)), tag("span", key, class_="key")))
        ask = tag("form", tag("button", "Ask the sites again", class_="second", id="ask"), data_action="ask")
        free = runs and self._engine.going_on() is None and len(replies) == len(rows)
        return join(_heading("Sites"), _table(("site", "state", "key"), rows, label="Sites"), ask if free else None)

    def _cautions(self) -> list[Markup]:
        """Return what a reader of the result must know first; the model is read again only when it is another."""
        written = (self._folder.model / "manifest.json").stat().st_mtime_ns
        if self._told[0] != written:
            self._told = (written, SparsePCAModel.load(self._folder.model).cautions())
        return [tag("p", caution, class_="warn") for caution in self._told[1]]

    def _said(self) -> Mapping[str, str]:
        return next((event["said"] for event in reversed(self._events) if event["event"] == "sites"), {})

    def _result(self) -> Markup:
        said = self._said()
        ready = bool(said) and all(state == READY for state in said.values()) and self._engine.runs
        run = tag("form", tag("button", "Start the run", id="run"), data_action="run")
        if self._engine.going_on() is not None:
            return Markup("")
        if self._folder.finished:
            button = tag("button", "Open the report", type="button", data_document="report", id="report")
            told = tag("p", f"The model is in {self._folder.model}.", class_="good")
            return join(_heading("The result"), told, *self._cautions(), button, run if ready else None)
        if (self._folder.journal / "run.json").exists() and self._engine.runs:
            again = tag("form", tag("button", "Go on with the run", id="resume"), data_action="resume")
            return join(_heading("The run"), tag("p", "A run was stopped. What sites answered is kept."), again)
        return join(_heading("The run"), run) if ready else Markup("")


def _standing(runs: bool, port: int) -> Markup:
    if runs:
        return tag("p", f"The study's server runs; sites connect to port {port}.", class_="good")
    return tag("p", "The study's server does not run. Start it with: fedspca study start", class_="warn")


def _mood(state: str) -> str:
    return "good" if state == READY else "warn" if state in {"not approved", "not here"} else "soft"


def _progress(events: Iterable[Mapping[str, Any]], *, goes_on: bool) -> Markup:
    """Return the last run, question by question."""
    run: list[Mapping[str, Any]] = []
    for event in events:
        if event["event"] == "begun" and event["action"] in RUNS:
            run = []
        run.append(event)
    asked = [event for event in run if event["event"] == "question"]
    if not asked and not goes_on:
        return Markup("")
    if not asked:
        return join(_heading("Progress"), tag("p", "The run begins; the first question is under way."))
    last = asked[-1]
    expected = max(last["expected"] or 0, last["number"])
    value = last["number"] if goes_on else expected
    bar = tag("progress", max=expected, value=value, aria_label="Questions answered")
    words = in_words(*(last[name] for name in ("number", "expected", "query", "seconds", "left")))
    figures = [
        (str(last["number"]), "questions"),
        (f"{sum(event['bytes_up'] for event in asked):,}", "bytes from sites"),
        (f"{sum(event['bytes_down'] for event in asked):,}", "bytes to sites"),
    ]
    tiles = tag("ul", [tag("li", tag("b", number), tag("span", name)) for number, name in figures], class_="tiles")
    return join(_heading("Progress"), bar, tag("p", words if goes_on else "The run has ended."), tiles)


def _happened(events: list[Mapping[str, Any]]) -> Markup:
    rows = [(time.strftime("%H:%M:%S", time.localtime(event["time"])), _line(event)) for event in events]
    told = [row for row in reversed(rows) if row[1]][:SHOWN]
    return join(_heading("What happened, newest first"), _table(("time", "what"), told, label="What happened"))


def _line(event: Mapping[str, Any]) -> str:
    match event["event"]:
        case "question":
            return in_words(*(event[name] for name in ("number", "expected", "query", "seconds", "left")))
        case "sites":
            return "; ".join(f"{site}: {state}" for site, state in event["said"].items())
        case "notice":
            return str(event["text"])
        case "failed":
            return f"Failed: {event['error']}"
        case "begun":
            return f"Begun: {event['action']}"
        case kind if kind in ENDS:
            return "Done."
    return ""
