import json
import shlex

import numpy as np
import pandas as pd
import typer

from fedspca.cli.options import as_typed, with_settings
from fedspca.fit import FitSettings
from fedspca.model import SparsePCAModel
from helpers.commands import fedspca


def write_sites(folder, n=240):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 12))
    rows[:, :4] += 1.5 * rng.standard_normal((n, 1))
    names = [f"m{j}" for j in range(12)]
    for at, part in enumerate(np.array_split(rows, 3)):
        pd.DataFrame(part, columns=names).to_csv(folder / f"s{at}.csv", index=False)
    return ["s0.csv", "s1.csv", "s2.csv"]


def test_choose_prints_what_each_method_says_and_recommends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = write_sites(tmp_path)
    ran = fedspca("choose", *files, "--folds", "4")
    assert ran.code == 0, ran.err
    for name in ("Marchenko–Pastur", "Gavish–Donoho", "parallel analysis", "cross-validation", "stability"):
        assert name in ran.out
    assert "Components: 1" in ran.out
    assert "fedspca fit s0.csv s1.csv s2.csv -r 1 --nonzero" in " ".join(ran.out.split())
    told = json.loads(fedspca("choose", *files, "--folds", "4", "-r", "2", "--by", "stability", "--json").out)
    assert told["n_components"] == 2
    assert told["n_nonzero"] == told["nonzeros"]["stability"]


def test_auto_at_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = write_sites(tmp_path)
    ran = fedspca("fit", *files, "--components", "auto", "--nonzero", "auto", "--folds", "4", "--no-path", "-o", "m")
    assert ran.code == 0, ran.err
    assert "1 component of 12 features, from 240 rows of 3 sites." in ran.out
    for wrong, words in (
        (("--components", "many"), "--components must be a whole number or auto"),
        (("--components", "auto", "--solver", "faspca", "--lam", "1"), "auto is for --solver exact"),
    ):
        ran = fedspca("fit", *files, *wrong, "-o", "n")
        assert (ran.code, words in ran.err) == (2, True), ran.err


def test_the_command_that_choose_prints_has_the_options_that_were_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = write_sites(tmp_path)
    for at, file in enumerate(files):
        table = pd.read_csv(file)
        table.insert(0, "no, of patient", range(at * 100, at * 100 + len(table)))
        table.assign(ward=at % 2, age=[30 + j % 7 for j in range(len(table))]).to_csv(f"t {at}.csv", index=False)
    given = ("--id", "no, of patient", "--label", "ward", "--exclude", "m3,age", "--no-scale", "--max-missing", "0.1")
    ran = fedspca("choose", *(f"t {at}.csv" for at in range(3)), *given, "--folds", "4", "-r", "1")
    assert ran.code == 0, ran.err
    printed = ran.out.split("Fit them: fedspca ")[1]
    fitted = fedspca(*shlex.split(printed), "--no-path", "-o", "m", "--json")
    assert fitted.code == 0, fitted.err
    study = SparsePCAModel.load("m").facts["study"]
    assert (study["id"], study["label"], study["exclude"]) == ("no, of patient", "ward", ["m3", "age"])
    assert (study["scale"], study["max_missing"], study["folds"]) == (False, 0.1, 4)


def test_settings_as_they_are_typed():
    settings = FitSettings(
        files=("a b.csv",),
        exclude=("x", "y,z"),
        categories={"sex": ("F", "M"), "a=b": ("c d", "e,f")},
        lam=(10.0, 20.0),
        block_sizes=(1, 1),
        scale=False,
        leave_out_small=True,
        adjust=("age:sex",),
        components=3,
    )
    typed = shlex.split(as_typed(settings))
    read = []

    def command(settings):
        read.append(settings)

    app = typer.Typer()
    app.command()(with_settings("data", "columns", "adjust", "fit", "policy")(command))
    app(typed, standalone_mode=False)
    assert read == [settings]
    assert as_typed(FitSettings(files=("a.csv",), components=3), without={"components"}) == "a.csv"


def test_a_choice_with_missing_values_filled_in_is_refused_and_not_made_without(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = write_sites(tmp_path)
    ran = fedspca("choose", *files, "-r", "2", "--missing", "em")
    assert ran.code == 2
    assert "choose compares folds of the rows, and --missing em makes one covariance of all rows" in ran.err
