"""What the documents say must run."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python_blocks(path):
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_readmes_example_runs(capsys):
    (example,) = python_blocks("README.md")
    exec(compile(example, "README.md", "exec"), {})
    assert re.search(r"\d+% of the variance, \d+ features", capsys.readouterr().out)


def test_the_tutorial_runs_as_it_is_written(tmp_path, monkeypatch):
    from helpers.commands import fedspca

    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    for language, block in re.findall(r"```(python|sh)\n(.*?)```", text, flags=re.DOTALL):
        if language == "python":
            exec(compile(block, "tutorial.md", "exec"), {})
            continue
        for line in block.splitlines():
            name, *arguments = shlex.split(line)
            ran = fedspca(*arguments)
            assert (name, ran.code) == ("fedspca", 0), (line, ran.err)
    made = ("model/manifest.json", "model.html", "scores.parquet", "errors.csv")
    assert all((tmp_path / file).exists() for file in made)


@pytest.mark.parametrize(
    "document", sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
)
def test_links_between_documents_lead_somewhere(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in t]
    assert all((ROOT / document).parent.joinpath(target).exists() for target in targets)


def test_notation_names_files_and_functions_that_exist():
    text = (ROOT / "docs/notation.md").read_text(encoding="utf-8")
    for path, name in re.findall(r"`((?:\w+/)*\w+\.py)(?:: (\w+))?`", text):
        file = ROOT / "src/fedspca" / path
        assert file.exists(), path
        assert not name or f"def {name}" in file.read_text(encoding="utf-8"), (path, name)


def test_the_page_on_privacy_names_tests_that_exist():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/privacy/index.md").read_text(encoding="utf-8")))
    tests = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("tests", "drills")
        for path in (ROOT / folder).rglob("test_*.py")
    )
    assert named
    assert all(f"def {name}(" in tests for name in named)
