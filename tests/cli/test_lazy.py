"""Help, the version and completion do not wait for numpy, and say what the commands themselves say."""

import importlib
import inspect
import os
import subprocess
import sys

import pytest
import typer

from fedspca.cli.app import Commands
from fedspca.cli.reproduce import NAMES
from fedspca.experiments.reproduce import EXPERIMENTS
from helpers.commands import fedspca

HEAVY = ("numpy", "scipy", "sklearn", "pyarrow", "flwr")
ASK = """
import sys
sys.argv[0] = "fedspca"
from fedspca.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def started(*arguments, words=None):
    """Run the command, or what a shell runs to complete words; return the result and the heavy modules imported."""
    asked = {} if words is None else {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    mode = {} if words is None else {"_FEDSPCA_COMPLETE": "complete_bash"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **asked, **mode},
    )
    return done, [name for name in HEAVY if name in done.stderr.split()]


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("fit", "--help"), ("study", "init", "--help")])
def test_help_and_version_import_no_numbers(arguments):
    done, heavy = started(*arguments)
    assert (done.returncode, heavy) == (0, [])


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("fedspca s", {"show", "score", "study", "site"}),
        (
            "fedspca fit --no",
            {
                "--nonzero",
                "--no-scale",
                "--no-path",
                "--no-common",
                "--no-show-sites",
                "--no-leave-out-small",
                "--no-between-sites",
            },
        ),
        ("fedspca fit --solver f", {"faspca", "fsspca"}),
        ("fedspca study init --on-dropout a", {"abort"}),
    ],
)
def test_completion_offers_what_there_is_and_imports_no_numbers(words, offered):
    done, heavy = started(words=words)
    assert set(done.stdout.split()) == offered
    assert heavy == []


@pytest.mark.parametrize("name", Commands.sentences)
def test_the_list_of_commands_says_what_each_says_of_itself(name):
    module = importlib.import_module(f"fedspca.cli.{name}")
    said = module.app.info.help if hasattr(module, "app") else inspect.getdoc(getattr(module, name))
    assert said.partition("\n")[0] == Commands.sentences[name]
    assert not hasattr(module, "app") or isinstance(module.app, typer.Typer)


def test_the_experiments_are_named_without_importing_them():
    assert list(EXPERIMENTS) == list(NAMES)


def test_without_typer_one_sentence_says_what_to_install(tmp_path):
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError('no typer', name='typer')\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "fedspca", "--version"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 1
    assert done.stderr.strip() == "The fedspca command needs typer. Install it with: pip install 'fedspca[cli]'"


@pytest.mark.parametrize(
    ("command", "words"),
    [("show", "A model's folder."), ("fit", "One file a site"), ("study admit", "sites sent")],
)
def test_arguments_are_explained(command, words):
    assert words in fedspca(*command.split(), "--help").out
