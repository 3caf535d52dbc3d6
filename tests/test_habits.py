"""What the repository promises about itself."""

import re
import tomllib
from pathlib import Path

import fedspca

ROOT = Path(__file__).parents[1]


def test_the_citation_has_the_packages_version():
    assert (
        re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
        == fedspca.__version__
    )


def test_the_hooks_are_local_and_run_what_make_check_runs():
    text = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"repo: (\S+)", text) == ["local"]
    for tool in ("ruff check", "ruff format", "mypy", "lint-imports"):
        assert f"entry: .venv/bin/{tool}" in text


def test_at_most_five_ignores_each_with_its_reason():
    folders = ("src", "benchmarks", "tools", "tests", "drills", "examples")
    lines = [line for folder in folders for line in _lines_of_python(ROOT / folder)]
    ignores = [line for line in lines if re.search(r"# (type: ignore|noqa)", line)]
    assert len(ignores) <= 5
    for line in ignores:
        assert re.search(r"# type: ignore\[[a-z-]+\] # \S+|# noqa: [A-Z]+\d+ - \S+", line), line


def _lines_of_python(folder):
    own = Path(__file__)
    return [line for path in folder.rglob("*.py") if path != own for line in path.read_text("utf-8").splitlines()]


def test_extras_that_are_installed_alone_are_all_of_them():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    tried = re.search(r'set -- "" (.*)', (ROOT / ".ci/installs").read_text(encoding="utf-8"))[1].split()
    assert set(tried) == set(extras)


def test_where_defaults_differ_between_python_and_the_command_line_the_documents_say_so():
    from fedspca import ExactSPCA
    from fedspca.fit.settings import SolverSettings
    from fedspca.fit.solvers import SOLVERS

    python, commands = ExactSPCA().get_params(), SolverSettings()
    names = SOLVERS["exact"].names.items()
    differing = {ours for ours, theirs in names if getattr(commands, ours) not in (None, python[theirs])}
    page = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    stated = set(re.findall(r"^\| `(\w+)` \|", page[page.index("## Defaults in Python") :], flags=re.MULTILINE))
    assert differing == stated
    for name in differing:
        assert "in Python" in SolverSettings.__dataclass_fields__[name].metadata["help"].replace(
            "In Python", "in Python"
        )
