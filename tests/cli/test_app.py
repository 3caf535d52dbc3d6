import subprocess
import sys

import pytest

from fedspca import __version__
from fedspca.cli import app


def fedspca(*arguments):
    return subprocess.run([sys.executable, "-m", "fedspca", *arguments], capture_output=True, text=True, check=False)


def test_version_and_help():
    assert fedspca("--version").stdout.strip() == f"fedspca {__version__}"
    assert "demo" in fedspca("--help").stdout


def test_scale_takes_a_site_as_its_value_and_leaves_files_alone():
    assert app._with_values(["fit", "--scale", "site", "a.csv"]) == ["fit", "--scale-by", "site", "a.csv"]
    assert app._with_values(["fit", "--scale", "a.csv", "site"]) == ["fit", "--scale", "a.csv", "site"]
    assert app._with_values(["--scale"]) == ["--scale"]


def test_an_unknown_command_is_a_usage_error():
    result = fedspca("dance")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_a_users_mistake_is_one_paragraph_without_markup(monkeypatch, capsys):
    def spoil():
        raise ValueError("column '[bold]x[/bold]' is empty")

    monkeypatch.setattr(app, "app", lambda arguments: spoil())
    with pytest.raises(SystemExit) as caught:
        app.run([])
    assert caught.value.code == 2
    assert capsys.readouterr().err.strip() == "Error: column '[bold]x[/bold]' is empty"
