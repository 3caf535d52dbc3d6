"""Run the experiments by name, and write their numbers, figures and page."""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from fedspca.experiments import (
    beside,
    iid_synthetic,
    iid_wdbc,
    literature,
    noniid_synthetic,
    noniid_wdbc,
    smoothing,
    stability,
)
from fedspca.experiments.runner import Record, Task, rounded, run

EXPERIMENTS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (smoothing, iid_synthetic, iid_wdbc, noniid_synthetic, noniid_wdbc, stability, beside, literature)
}
FOLDER = "reproduction"
PAGE = "reproduction.md"
UNDER_WAY = "under-way"  # results of a reproduction that has not ended


def plan(names: Iterable[str] = (), *, quick: bool = False) -> list[Task]:
    """All tasks of the experiments named, or of every one."""
    chosen = list(dict.fromkeys(names)) or list(EXPERIMENTS)
    unknown = [name for name in chosen if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(f"There is no experiment {unknown[0]!r}. There are {', '.join(EXPERIMENTS)}.")
    return [task for name in chosen for task in EXPERIMENTS[name].tasks(quick=quick)]


def reproduce(
    names: Iterable[str] = (),
    *,
    out: Path,
    quick: bool = False,
    jobs: int = 1,
    done: Callable[[Task], object] = lambda _task: None,
) -> list[Path]:
    """Run the experiments and write what they found under ``out``.

    Each run's result is kept in ``out`` as it ends, so that an interrupted reproduction goes on where it was; the page
    and its numbers are written when all have run. Numbers of experiments that were not run now, and are in ``out``
    from before, keep their place on the page.

    Returns
    -------
    paths : list of Path
        The files written: for each experiment its numbers, its times and its figures, and the page.
    """
    tasks = plan(names, quick=quick)
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    keep = folder / UNDER_WAY
    keep.mkdir(exist_ok=True)
    found = collect(tasks, run(tasks, jobs, done, keep))
    times = {name: _times(records) for name, records in found.items()}
    numbers = {**read_numbers(folder), **{name: _numbers(records, quick) for name, records in found.items()}}
    written = publish(numbers, out, changed=tuple(found), times=times)
    for task in tasks:
        (keep / task.key).unlink(missing_ok=True)
    if not any(keep.iterdir()):
        keep.rmdir()
    return written


def collect(tasks: Sequence[Task], results: Sequence[list[Record]]) -> dict[str, list[Record]]:
    """Records by experiment, in the order of the tasks."""
    found: dict[str, list[Record]] = {}
    for task, records in zip(tasks, results, strict=True):
        found.setdefault(task.experiment, []).extend(records)
    return found


def _numbers(records: list[Record], quick: bool) -> Record:
    """What must come out the same each time: all but the seconds."""
    kept = [{key: value for key, value in record.items() if key != "seconds"} for record in records]
    return {"quick": quick, "solved": True, "records": rounded(kept)}


def _times(records: list[Record]) -> list[Record]:
    names = ("what", "row", "method", "data", "setting", "seed", "n_sites", "seconds")
    return [rounded({n: r[n] for n in names if n in r}, 3) for r in records if "seconds" in r]


def read_numbers(folder: Path) -> dict[str, Record]:
    """Numbers of all experiments that a folder has, in the page's order."""
    paths = {name: folder / f"{name}.json" for name in EXPERIMENTS}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def publish(
    numbers: dict[str, Record], out: Path, *, changed: Sequence[str], times: dict[str, list[Record]]
) -> list[Path]:
    """Write numbers, times and figures of the changed experiments, and the page of all, each whole or not at all."""
    from fedspca.experiments.figures import draw
    from fedspca.experiments.page import render, render_times

    ordered = {name: numbers[name] for name in EXPERIMENTS if name in numbers}
    files: dict[Path, bytes] = {}
    for name in changed:
        files[out / FOLDER / f"{name}.json"] = _json(ordered[name]).encode()
        if times.get(name):
            files[out / FOLDER / f"{name}-times.json"] = _json(times[name]).encode()
        for figure, picture in draw(name, ordered[name]["records"]).items():
            files[out / FOLDER / f"{figure}.svg"] = picture
    if "iid-wdbc" in times:
        files[out / FOLDER / "times.md"] = render_times(times["iid-wdbc"]).encode()
    files[out / PAGE] = render(ordered).encode()
    for path, content in files.items():
        write_whole(path, content)
    return list(files)


def _json(value: Any) -> str:
    """JSON with one record a line, so that a change of one shows as a change of one."""
    if isinstance(value, list):
        return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in value) + "\n]\n"
    head = json.dumps({key: item for key, item in value.items() if key != "records"}, ensure_ascii=False)
    return f'{head[:-1]}, "records": {_json(value["records"]).rstrip()}}}\n'


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it: it is there whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).chmod(0o644)  # mkstemp keeps files from others; a page is for all
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
