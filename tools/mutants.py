"""Do the tests notice? Change a module in one place at a time, and run its tests each time.

Usage: ``python -m tools.mutants linalg/certificate``, or ``make mutants WHICH=linalg/certificate``.

Why not mutmut or cosmic-ray: mutmut 3.8 reads a private attribute that pytest 9 does not have, and leaves decorated
functions alone; cosmic-ray starts Python anew for each mutant, which takes longer than the tests. Here pytest collects
the tests once. For each mutant the process is forked; the child puts the changed module in place, runs the tests until
one fails, and ends. No file is ever changed.

The tests are the module's own, ``tests/a/test_b.py`` for ``a/b.py``, and those that ``also`` in
``tests/mutants/a.b.toml`` names. A mutant that survives is looked at and explained in that file. The command fails if
fewer than 90 % are killed, if one survives that is not explained, or if an explanation is of none that survives.
"""

import argparse
import ast
import importlib
import json
import os
import resource
import signal
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.mutations import Mutation, mutations

ROOT = Path(__file__).parents[1]
SOURCE, TESTS, RESULTS = ROOT / "src" / "fedspca", ROOT / "tests", ROOT / "build" / "mutants"
BAR = 0.9
KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
PYTEST = ("-x", "-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no")


@dataclass(frozen=True)
class Target:
    """A module, as linalg/certificate."""

    module: str

    @property
    def path(self) -> Path:
        """The file of the module."""
        return SOURCE / f"{self.module}.py"

    @property
    def name(self) -> str:
        """The module's name when it is imported."""
        return f"fedspca.{self.module.replace('/', '.')}"

    @property
    def results(self) -> Path:
        """Where it is written what became of the mutants."""
        return RESULTS / f"{self.module.replace('/', '.')}.json"

    @property
    def notes(self) -> dict[str, Any]:
        """What ``tests/mutants`` says of it."""
        path = TESTS / "mutants" / f"{self.module.replace('/', '.')}.toml"
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    @property
    def tests(self) -> list[str]:
        """The tests that are run, the module's own first."""
        own = TESTS / Path(self.module).parent / f"test_{Path(self.module).name}.py"
        return [str(own), *(str(TESTS / name) for name in self.notes.get("also", []))]

    @property
    def explained(self) -> dict[str, str]:
        """The survivors that were looked at, and why each does no harm."""
        return dict(self.notes.get("survivors", {}))


class Judge:
    """A pytest plugin that runs the collected tests once for each mutant, in a process of its own.

    Parameters
    ----------
    target : Target
        The module that is changed.
    tree : ast.Module
        Its syntax.
    chosen : list of Mutation
        The changes.
    """

    def __init__(self, target: Target, tree: ast.Module, chosen: list[Mutation]) -> None:
        self.target, self.tree, self.chosen = target, tree, chosen
        self.found: dict[str, dict[str, Any]] = {}
        self._seconds: dict[str, float] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        """Take the place of pytest's own loop."""
        self._warm_up(session)
        code, usual = self._forked(session, 600.0)
        if code != 0:
            raise SystemExit(f"{self.target.module}: its tests fail as it is (exit code {code}).")
        for mutation in self.chosen:
            with mutation.apply():
                code, taken = self._forked(session, 2.0 + 5.0 * usual)
            verdict = SURVIVED if code == 0 else TIMED_OUT if code in {-signal.SIGXCPU, -signal.SIGKILL} else KILLED
            self.found[mutation.name] = {"line": mutation.line, "verdict": verdict, "seconds": round(taken, 2)}
            if verdict == SURVIVED:
                known = "explained" if mutation.name in self.target.explained else "NOT EXPLAINED"
                print(f"  {self.target.module}.py:{mutation.line}  {mutation.name}  [{known}]", flush=True)
        return True

    def _forked(self, session: Any, seconds: float) -> tuple[int, float]:
        """Run the tests in a process of its own; return the exit code and the processor time that it took."""
        child = os.fork()
        if child == 0:
            os._exit(self._judged(session, seconds))
        until = time.monotonic() + 60.0 + 30.0 * seconds  # for one that waits; the processor's time is limited below
        while True:
            done, status, used = os.wait4(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
            if time.monotonic() > until:
                os.killpg(child, signal.SIGKILL)
                until = float("inf")
            time.sleep(0.005)

    def _judged(self, session: Any, seconds: float) -> int:
        """In the child: put the module in place, run the tests, return 0 if none failed."""
        from _pytest.main import pytest_runtestloop

        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            put_in_place(self.target, self.tree)
            pytest_runtestloop(session)
        except BaseException:  # also pytest's own, which ends the loop at the first failure
            return 1
        return 1 if session.testsfailed else 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note how long each test takes."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration

    def _warm_up(self, session: Any) -> None:
        """Run the tests once in a child, to import here what they imported there, and to put the quick ones first."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            self._judged(session, 600.0)
            with os.fdopen(write, "w") as stream:
                json.dump([sorted(sys.modules), self._seconds], stream)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as stream:
            names, seconds = json.load(stream)
        os.waitpid(child, 0)
        for name in names:
            _import(name)
        session.items.sort(key=lambda item: seconds.get(item.nodeid, 0.0))


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # made by another module, and nothing to import by itself
        return


def put_in_place(target: Target, tree: ast.Module) -> None:
    """Run a changed module in the place of the one that is loaded, and hand its functions to whoever imported them."""
    module = importlib.import_module(target.name)
    before = dict(vars(module))
    exec(compile(ast.fix_missing_locations(tree), str(target.path), "exec"), vars(module))
    changed = {
        id(value): vars(module)[name]
        for name, value in before.items()
        if not name.startswith("__") and vars(module)[name] is not value
    }
    for other in list(sys.modules.values()):
        if not str(getattr(other, "__file__", None) or "").startswith(str(ROOT)):
            continue
        for name, value in list(vars(other).items()):
            if id(value) in changed and not name.startswith("__"):
                setattr(other, name, changed[id(value)])


def report(target: Target, found: dict[str, dict[str, Any]]) -> bool:
    """Write the results into a file, say them in a line, and return whether they are good enough."""
    survivors = [name for name, what in found.items() if what["verdict"] == SURVIVED]
    killed = len(found) - len(survivors)  # a mutant that does not end is noticed
    unexplained = [name for name in survivors if name not in target.explained]
    gone = [name for name in target.explained if name not in survivors]
    RESULTS.mkdir(parents=True, exist_ok=True)
    target.results.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    share = killed / len(found) if found else 1.0
    print(
        f"{target.module}: {killed} of {len(found)} mutants killed ({share:.1%}), {len(survivors)} survive, "
        f"{len(unexplained)} of them not explained.",
        flush=True,
    )
    for name in gone:
        print(f"  explained, but it does not survive: {name}", flush=True)
    return share >= BAR and not unexplained and not gone


def judge(target: Target, only: str, again: bool) -> bool:
    """Judge the mutants of one module, or those whose names contain a text, or those that survived the last time."""
    import pytest

    tree = ast.parse(target.path.read_text(encoding="utf-8"))
    chosen = mutations(tree)
    names = {mutation.name for mutation in chosen}
    before: dict[str, dict[str, Any]] = {}
    if again:
        before = json.loads(target.results.read_text(encoding="utf-8"))
        chosen = [m for m in chosen if before.get(m.name, {"verdict": SURVIVED})["verdict"] == SURVIVED]
    chosen = [mutation for mutation in chosen if only in mutation.name]
    plugin = Judge(target, tree, chosen)
    pytest.main([*PYTEST, f"--rootdir={ROOT}", *target.tests], plugins=[plugin])
    if len(plugin.found) < len(chosen):
        return False
    found = {name: what for name, what in {**before, **plugin.found}.items() if name in names}
    return report(target, found) if not only else True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("module", help="a module under src/fedspca, as linalg/certificate")
    parser.add_argument("--only", default="", help="mutants whose name contains this text")
    parser.add_argument("--again", action="store_true", help="only those that survived the last time")
    parser.add_argument("--list", action="store_true", help="only say which mutants there are")
    given = parser.parse_args(arguments)
    target = Target(given.module.removesuffix(".py"))
    if not target.path.exists():
        parser.error(f"there is no module {target.path.relative_to(ROOT)}")
    if given.list:
        for mutation in mutations(ast.parse(target.path.read_text(encoding="utf-8"))):
            print(f"{mutation.line:5d}  {mutation.name}")
        return 0
    return 0 if judge(target, given.only, given.again) else 1


if __name__ == "__main__":
    sys.exit(main())
