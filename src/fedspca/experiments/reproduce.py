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
UNDER_WAY = "under-way"  # folder for the results of an unfinished reproduction


def plan(names: Iterable[str] = (), *, quick: bool = False) -> list[Task]:
    """All tasks of the named experiments, or of all experiments if none is named."""
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
    """Run the experiments and write their results to ``out``.

    The result of each run is saved in ``out`` when the run ends, so an interrupted reproduction can continue. The page
    and its numbers are written after all runs. The page also shows experiments that were not run this time, if their
    numbers are already in ``out``.

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
    """The numbers that must be the same in every reproduction: all except the seconds."""
    kept = [{key: value for key, value in record.items() if key != "seconds"} for record in records]
    return {"quick": quick, "solved": True, "records": rounded(kept)}


def _times(records: list[Record]) -> list[Record]:
    names = ("what", "row", "method", "data", "setting", "seed", "n_sites", "seconds")
    return [rounded({n: r[n] for n in names if n in r}, 3) for r in records if "seconds" in r]


def read_numbers(folder: Path) -> dict[str, Record]:
    """The numbers of all experiments in a folder, in the order of the page."""
    paths = {name: folder / f"{name}.json" for name in EXPERIMENTS}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def publish(
    numbers: dict[str, Record], out: Path, *, changed: Sequence[str], times: dict[str, list[Record]]
) -> list[Path]:
    """Write numbers, times and figures of the changed experiments, and the page of all, each file atomically."""
    from fedspca.experiments.figures import draw
    from fedspca.experiments.page import render, render_times
    from fedspca.experiments.sections_literature import literature_times

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
    if "literature" in times:
        files[out / FOLDER / "literature-times.md"] = literature_times(times["literature"]).encode()
    files[out / PAGE] = render(ordered).encode()
    for path, content in files.items():
        write_whole(path, content)
    return list(files)


def _json(value: Any) -> str:
    """JSON with one record per line, so that a diff shows only the records that changed."""
    if isinstance(value, list):
        return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in value) + "\n]\n"
    head = json.dumps({key: item for key, item in value.items() if key != "records"}, ensure_ascii=False)
    return f'{head[:-1]}, "records": {_json(value["records"]).rstrip()}}}\n'


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it, so that nobody sees a partial file."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(name).chmod(0o644)  # mkstemp makes files private, but everyone may read the page
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
