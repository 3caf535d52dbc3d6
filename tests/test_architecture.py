"""docs/architecture.md against the code: files exist, walks are what is executed, every exception is drawn."""

import ast
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from fedspca import ExactSPCA, Site, secure_federation
from fedspca.site import Query
from helpers.commands import fedspca
from helpers.study_files import make_rows, write

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/fedspca"
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
INSIDE = ("linalg/", "solvers/exact/")  # rooms whose own division may change without a newcomer's walk changing


def section(number):
    return re.search(rf"## Walk {number}:.*?(?=\n## )", PAGE, flags=re.DOTALL)[0]


def walk(number):
    return re.findall(r"^\d+\. `([\w/]+\.py)`", section(number), flags=re.MULTILINE)


def named(number):
    """Return the files of a walk and those called on the way."""
    return set(re.findall(r"`([\w/]+\.py)`", section(number)))


def executed(run):
    """Return the package's files in which a function was called."""
    found = set()

    def note(frame, event, _argument):
        code = frame.f_code
        if event == "call" and code.co_name != "<module>":
            found.add(code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    here = str(SOURCE.resolve())
    return {
        Path(name).resolve().relative_to(here).as_posix()
        for name in found
        if str(Path(name).resolve()).startswith(here)
    }


def fit_in_python(_folder):
    rows = make_rows(60)
    return lambda: ExactSPCA(2, n_nonzero=3, scale=True).fit(rows, sites=np.arange(60) % 3)


def fit_from_files(folder):
    files = [write(folder / f"{name}.csv", make_rows(30, seed)) for seed, name in enumerate("abc")]
    return lambda: fedspca("fit", *files, "--nonzero", "3", "-o", folder / "model")


def one_round(_folder):
    federation = secure_federation([Site(name, make_rows(20, seed)) for seed, name in enumerate("abc")])
    federation.sum(Query("moments"))  # the first round also exchanges keys
    return lambda: federation.sum(Query("moments"))


WALKS = {1: (fit_in_python, 20), 2: (fit_from_files, 40), 3: (one_round, 20)}


@pytest.mark.parametrize("number", WALKS)
def test_a_walk_is_short(number):
    files = {*walk(number), *(walk(1) if number == 2 else ())}
    assert len(walk(number)) >= 10
    assert len(files) <= WALKS[number][1]


@pytest.mark.parametrize("number", WALKS)
def test_a_walk_is_what_is_executed(number, tmp_path):
    prepare, _ = WALKS[number]
    run = prepare(tmp_path)
    run()  # so that imports and caches do not count
    for made in tmp_path.glob("model*"):
        made.rename(tmp_path / f"old-{made.name}")
    ran = executed(run)
    known = named(number) | (named(1) if number == 2 else set())
    assert {file for file in ran - known if not file.startswith(INSIDE)} == set()
    for file in walk(number):
        if not file.startswith(INSIDE) and "\ndef " in (SOURCE / file).read_text(encoding="utf-8"):
            assert file in ran, f"{file} is in walk {number} and was not executed"


def test_every_file_and_folder_named_exists():
    files = set(re.findall(r"`((?:\w+/)*\w+\.py)`", PAGE)) - {"tests/test_architecture.py"}
    assert [file for file in sorted(files) if not (SOURCE / file).is_file()] == []
    folders = {
        name
        for line in re.findall(r"^\| (`.*?) \|", PAGE, flags=re.MULTILINE)
        for name in re.findall(r"`(\w+)/`", line)
    }
    assert folders == {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}


def exceptions():
    """Return the exceptions that the package defines, and where: classes whose bases are exceptions."""
    classes = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                classes[node.name] = (path.relative_to(SOURCE).as_posix(), bases)
    builtin = {"Exception", "ValueError", "RuntimeError", "OSError", "ChildProcessError", "UserWarning"}

    def is_exception(name):
        return name in builtin or (name in classes and any(is_exception(base) for base in classes[name][1]))

    return {name: file for name, (file, bases) in classes.items() if any(map(is_exception, bases))}


def test_every_exception_is_drawn_where_it_is_defined():
    tree = PAGE[PAGE.index("## Every exception") :]
    drawn = dict(re.findall(r"── (\w+) +([\w/]+\.py)", tree))
    public = {name: file for name, file in exceptions().items() if not name.startswith("_")}
    assert drawn == public
