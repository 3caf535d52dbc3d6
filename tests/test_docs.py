"""What the documents say must run."""

import re
import shlex
from pathlib import Path

import pytest
from sklearn.datasets import load_wine

ROOT = Path(__file__).parents[1]


def python_blocks(path):
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_readmes_example_runs(capsys):
    (example,) = python_blocks("README.md")
    exec(compile(example, "README.md", "exec"), {})
    assert re.search(r"\d+% of the variance captured so far; 6 features", capsys.readouterr().out)


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


PAGES = sorted(
    p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md") if "docs/reference/" not in p.as_posix()
)
BUILT = ("gallery/", "reference/")  # by make docs; a drill follows these links
BLOCKS = [
    pytest.param(page, block, id=f"{page} {number}")
    for page in PAGES
    if page != "docs/tutorial.md"  # run as a whole, below
    for number, block in enumerate(python_blocks(page), start=1)
]


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_every_python_block_of_every_page_runs(page, block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = load_wine().data  # what pages call the reader's own rows, and who owns each
    owners = [f"site {row % 3}" for row in range(len(X))]
    exec(compile(block, page, "exec"), {"X": X, "rows": X, "new": X[:20], "owners": owners})


def command_lines(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()]
    parts = [part.split("  #")[0].strip() for line in lines for part in line.split("&&")]
    return [part for part in parts if part.startswith("fedspca ")]


@pytest.mark.parametrize("page", [page for page in ["README.md", *PAGES] if command_lines(page)])
def test_every_command_line_of_every_page_has_the_options_that_there_are(page):
    import typer.main

    from fedspca.cli.app import app

    for line in command_lines(page):
        _, *words = shlex.split(line)
        command, name = typer.main.get_command(app), "fedspca"
        while hasattr(command, "get_command"):
            context = command.make_context(name, [], resilient_parsing=True)
            name, command, words = command.resolve_command(context, words)
            assert command is not None, line
        command.make_context(name, words)  # raises for an option that there is not, or an argument that is missing


def test_every_page_is_in_a_table_of_contents_of_the_site():
    listed = set()
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for block in re.findall(r"```{toctree}\n(.*?)```", text, flags=re.DOTALL):
            entries = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
            listed |= {(Path(page).parent / f"{entry}.md").as_posix() for entry in entries}
    assert set(PAGES) - listed == {"docs/index.md"}


def test_the_reference_has_every_public_name(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from build_parts import api_pages, cli_page, commands, public_names

    import fedspca

    named = {full for names in public_names().values() for full in names}
    assert {f"fedspca.{name}" for name in fedspca.__all__ if not name.startswith("__")} <= named
    pages = api_pages()
    assert all(any(f":: {full}\n" in text for text in pages.values()) for full in named)
    page = cli_page()
    assert all(f"## {' '.join(words)}\n" in page for words, _ in commands())
    assert "`--nonzero`" in page


@pytest.mark.parametrize("document", [*sorted(path.name for path in ROOT.glob("*.md")), *PAGES])
def test_links_between_documents_lead_somewhere(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in t and not t.startswith(BUILT)]
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
