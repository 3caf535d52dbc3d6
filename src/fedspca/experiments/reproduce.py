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
from fedspca.experiments.runner import Record, Task, replaced, rounded, run

EXPERIMENTS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (smoothing, iid_synthetic, iid_wdbc, noniid_synthetic, noniid_wdbc, stability, beside, literature)
}
FOLDER = "reproduction"
PAGE = "reproduction.md"
VARYING = ("seconds", "varying")  # what differs from run to run: times, and results of methods with private noise
UNDER_WAY = "under-way"  # folder for the results of an unfinished reproduction


def plan(names: Iterable[str] = (), *, quick: bool = False, method: str = "") -> list[Task]:
    """All tasks of the named experiments, or of all experiments if none is named.

    If a method is given, only the tasks of methods whose names begin with it.
    """
    chosen = list(dict.fromkeys(names)) or list(EXPERIMENTS)
    unknown = [name for name in chosen if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(f"There is no experiment {unknown[0]!r}. There are {', '.join(EXPERIMENTS)}.")
    tasks = [task for name in chosen for task in EXPERIMENTS[name].tasks(quick=quick)]
    found = [task for task in tasks if task.method.startswith(method)]
    if not found:
        known = sorted({task.method.split(",")[0] for task in tasks} - {""})
        raise ValueError(f"No run fits {method!r}. There are {', '.join(known)}.")
    return found


def reproduce(
    names: Iterable[str] = (),
    *,
    out: Path,
    quick: bool = False,
    method: str = "",
    jobs: int = 1,
    done: Callable[[Task], object] = lambda _task: None,
) -> list[Path]:
    """Run the experiments and write their results to ``out``.

    The result of each run is saved in ``out`` when the run ends, so an interrupted reproduction can continue. The page
    and its numbers are written after all runs. The page also shows experiments that were not run this time, if their
    numbers are already in ``out``. If a method is given, only its runs are made, and the other numbers of these
    experiments are those in ``out``.

    Returns
    -------
    paths : list of Path
        The files written: for each experiment its numbers, its times and its figures, and the page.
    """
    tasks = plan(names, quick=quick, method=method)
    folder = out / FOLDER
    if method:
        _check_stored(folder, {task.experiment for task in tasks}, quick)
    folder.mkdir(parents=True, exist_ok=True)
    keep = folder / UNDER_WAY
    keep.mkdir(exist_ok=True)
    found = collect(tasks, run(tasks, jobs, done, keep))
    times = {name: _times(records) for name, records in found.items()}
    numbers = read_numbers(folder)
    for name, records in found.items():
        fresh = _numbers(records)
        if method:
            fresh = replaced(numbers[name]["records"], fresh, method)
            times[name] = replaced(_read_times(folder, name), times[name], method)
        numbers[name] = {"quick": quick, "records": fresh}
    written = publish(numbers, out, changed=tuple(found), times=times)
    for task in tasks:
        (keep / task.key).unlink(missing_ok=True)
    if not any(keep.iterdir()):
        keep.rmdir()
    return written


def _check_stored(folder: Path, names: Iterable[str], quick: bool) -> None:
    """Refuse to replace the records of one method where those of the others are missing, or of another kind."""
    stored = read_numbers(folder)
    for name in names:
        if name not in stored or stored[name]["quick"] != quick:
            raise ValueError(
                f"{folder / name}.json has no {'quick' if quick else 'full'} run whose other methods could be kept. "
                "Run the whole experiment first, without --method."
            )


def collect(tasks: Sequence[Task], results: Sequence[list[Record]]) -> dict[str, list[Record]]:
    """Records by experiment, in the order of the tasks."""
    found: dict[str, list[Record]] = {}
    for task, records in zip(tasks, results, strict=True):
        found.setdefault(task.experiment, []).extend(records)
    return found


def _numbers(records: list[Record]) -> list[Record]:
    """The numbers that must be the same in every reproduction."""
    return [rounded({key: value for key, value in record.items() if key not in VARYING}) for record in records]


def _times(records: list[Record]) -> list[Record]:
    """The numbers that differ from run to run, and which run they are of."""
    names = ("what", "row", "method", "data", "setting", "seed", "n_sites", *VARYING)
    return [rounded({n: r[n] for n in names if n in r}, 3) for r in records if "seconds" in r]


def _read_times(folder: Path, name: str) -> list[Record]:
    path = folder / f"{name}-times.json"
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


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
