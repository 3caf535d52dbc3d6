"""What the documents say must run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python_blocks(path):
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_readmes_example_runs(capsys):
    (example,) = python_blocks("README.md")
    exec(compile(example, "README.md", "exec"), {})
    assert re.search(r"\d+% of the variance, \d+ features", capsys.readouterr().out)


@pytest.mark.parametrize(
    "document", sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
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
