"""The commands as a user runs them, on small files."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from fedspca.model import SparsePCAModel
from helpers.commands import fedspca
from helpers.study_files import NAMES, frame, make_rows, write


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = make_rows()
    write(tmp_path / "north.csv", rows[:40])
    write(tmp_path / "south.parquet", rows[40:])
    return tmp_path


FIT = ("fit", "north.csv", "south.parquet", "--nonzero", "3", "--no-path")


def test_from_files_to_report(study):
    ran = fedspca(*FIT, "-o", "model")
    assert ran.code == 0
    assert "Component 1" in ran.out
    assert "fedspca report model" in ran.out
    assert not (study / "model.checkpoint").exists()
    shown = json.loads(fedspca("show", "model", "--json", "--csv", "loadings.csv").out)
    assert [len(component) for component in shown["components"]] == [3, 3]
    assert pd.read_csv(study / "loadings.csv").shape == (8, 3)
    assert "is in model.html" in fedspca("report", "model", "--rows", "north.csv").out
    assert "--force" in fedspca("report", "model").err
    assert fedspca("report", "model", "--force").code == 0


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_transform(study, kind):
    fedspca(*FIT, "-o", "model")
    new = frame(make_rows(30, seed=4))[NAMES[::-1]].assign(who=[f"p,{i}" for i in range(30)])
    new.to_csv(study / "new.csv", index=False)
    ran = fedspca("transform", "model", "new.csv", "--id", "who", "-o", f"scores.{kind}")
    assert ran.code == 0, ran.err
    scores = SparsePCAModel.load("model").transform(make_rows(30, seed=4))
    if kind == "npy":
        np.testing.assert_allclose(np.load(study / "scores.npy"), scores)
        return
    table = pd.read_csv(study / "scores.csv") if kind == "csv" else pd.read_parquet(study / "scores.parquet")
    assert list(table["who"]) == list(new["who"])
    np.testing.assert_allclose(table[["component 1", "component 2"]], scores)


def test_transform_refuses_and_leaves_nothing(study):
    fedspca(*FIT, "-o", "model")
    frame(make_rows(30)).drop(columns="f3").to_csv(study / "new.csv", index=False)
    ran = fedspca("transform", "model", "new.csv", "-o", "scores.csv")
    assert (ran.code, "lacks 'f3'" in ran.err) == (2, True)
    (study / "late.csv").write_text(",".join(NAMES) + "\n" + "1,1,1,1,1,1,1,1\n" * 9 + "1,1,1,inf,1,1,1,1\n")
    assert "infinity" in fedspca("transform", "model", "late.csv", "-o", "scores.csv").err
    assert ".csv, .parquet, .npy" in fedspca("transform", "model", "north.csv", "-o", "scores.xls").err
    assert sorted(p.name for p in study.iterdir() if "scores" in p.name or "part" in p.name) == []


def test_score_marks_rows_that_the_components_do_not_explain(study):
    fedspca(*FIT, "-o", "model")
    rows = make_rows(200, seed=7)
    rows[11, 7] += 3000.0
    frame(rows).to_csv(study / "new.csv", index=False)
    ran = fedspca("score", "model", "new.csv", "--anomaly", "-o", "errors.csv", "--json")
    result = json.loads(ran.out)
    assert result["largest"][0][0] == "row 12"
    assert result["anomalies"] < 20
    table = pd.read_csv(study / "errors.csv")
    np.testing.assert_allclose(table["error"], SparsePCAModel.load("model").reconstruction_errors(rows))
    assert table["anomaly"].sum() == result["anomalies"]
    assert "have an error above 10" in fedspca("score", "model", "new.csv", "--anomaly", "--threshold", "10").out


def test_the_threshold_is_boxs(study):
    from scipy.stats import chi2

    from fedspca.cli.score import box_threshold

    assert box_threshold(8.0, 16.0, 0.99) == pytest.approx(chi2.ppf(0.99, 8))  # chi-square has mean h, variance 2h
    with pytest.raises(ValueError, match="between 0 and 1"):
        box_threshold(1, 1, 1.5)


def test_compare(study):
    fedspca(*FIT, "-o", "a")
    fedspca("fit", "north.csv", "south.parquet", "--nonzero", "2", "--exclude", "f7", "--no-path", "-o", "b")
    result = json.loads(fedspca("compare", "a", "b", "--json").out)
    assert result["only_in_a"] == ["f7"]
    assert all(pair["shared"] == 2 and pair["cosine"] > 0.7 for pair in result["pairs"])
    assert result["settings"]["nonzero"] == [3, 2]
    assert "Setting nonzero: 3 in A, 2 in B." in fedspca("compare", "a", "b").out


def test_check_says_what_differs(study):
    assert "The sites hold the same features." in fedspca("check", "north.csv", "south.parquet").out
    rows = frame(make_rows(30, seed=3))
    rows.assign(f2=rows.f2 * 1000, f5=1.0)[NAMES[::-1]].to_csv(study / "east.csv", index=False)
    ran = fedspca("check", "north.csv", "east.csv")
    assert ran.code == 0
    for words in ("another order", "'f2' is", "in another unit?", "'f5' has one value"):
        assert words in ran.out
    rows.drop(columns="f0").assign(new=1.0).to_csv(study / "odd.csv", index=False)
    ran = fedspca("check", "north.csv", "odd.csv")
    assert ran.code == 1
    assert "lacks 'f0'" in ran.out
    assert "has 'new'" in ran.out
    assert (
        "left out, since not every site has them: 'f0', 'new'"
        in fedspca("check", "north.csv", "odd.csv", "--common").out.lower()
    )


def test_a_schema_is_written_and_checked_elsewhere(study):
    assert fedspca("check", "north.csv", "--write", "schema.json").code == 0
    assert fedspca("check", "south.parquet", "--against", "schema.json").code == 0
    frame(make_rows()).drop(columns="f1").to_csv(study / "bad.csv", index=False)
    assert fedspca("check", "bad.csv", "--against", "schema.json").code == 1


def test_path_marks_a_choice(study):
    ran = fedspca("path", "north.csv", "south.parquet", "-o", "path.csv", "--grid", "1,2,3,5,8")
    assert ran.code == 0, ran.err
    assert ran.out.count("<- chosen") == 1
    table = pd.read_csv(study / "path.csv")
    assert table["explained"].is_monotonic_increasing
    assert "whole numbers" in fedspca("path", "north.csv", "--grid", "a").err


def test_a_study_file_says_everything(study):
    assert fedspca("init", "north.csv", "south.parquet").code == 0
    assert "--force" in fedspca("init").err
    assert fedspca("fit", "fit.toml", "--nonzero", "3", "--no-path", "-o", "m1").code == 0
    assert fedspca(*FIT, "-o", "m2").code == 0
    for file in (study / "m1").glob("*.npy"):
        assert file.read_bytes() == (study / "m2" / file.name).read_bytes()


def test_common_features_are_taken_on_request_and_the_others_named(study):
    frame(make_rows(30)).drop(columns="f7").to_csv(study / "east.csv", index=False)
    ran = fedspca("fit", "north.csv", "east.csv", "--common", "--no-path", "--nonzero", "3", "-o", "m", "--json")
    assert json.loads(ran.out)["features"] == 7
    assert "left out, since not every site has them: 'f7'" in ran.err


def test_columns_to_keep_out_may_be_at_some_sites_only(study):
    frame(make_rows(30)).assign(who="p", note="x").to_csv(study / "east.csv", index=False)
    command = ("fit", "north.csv", "east.csv", "--id", "who", "--no-path", "-o", "m", "--json")
    assert json.loads(fedspca(*command, "--exclude", "note").out)["features"] == 8
    ran = fedspca(*command, "--force", "--exclude", "nothing,note")
    assert (ran.code, "no column 'nothing'" in ran.err) == (2, True)


def test_the_prepared_copies_can_be_seen_and_deleted(study, monkeypatch):
    monkeypatch.setattr("fedspca.data.prepare.IN_MEMORY", 0)
    assert fedspca(*FIT, "--cache", "cache", "-o", "m").code == 0
    assert "2 prepared copies" in fedspca("cache", "--cache", "cache").out
    assert "Deleted 2" in fedspca("cache", "--cache", "cache", "--clear").out
    assert "0 prepared copies" in fedspca("cache", "--cache", "cache").out


SLOW = ("--solver", "faspca", "--lam", "1", "--tol", "1e-14", "--max-rounds", "1000")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_resumed_gives_the_same_bytes(study, how):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.standard_normal((60, 300)) @ np.diag(np.linspace(3, 1, 300)))
    wide.add_prefix("f").to_csv("wide.csv", index=False)
    command = ("fit", "wide.csv", *SLOW)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

    def start(*more, wait=True):
        process = subprocess.Popen(
            [sys.executable, "-m", "fedspca", *command, *more], stderr=subprocess.PIPE, text=True, env=environment
        )
        return process.communicate()[1] if wait else process

    start("-o", "whole")
    process = start("-o", "m", wait=False)
    while not (study / "m.checkpoint" / "000020.round").exists() or not _snapshot(study, how):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(how)
    told = process.communicate()[1]
    assert process.returncode == (130 if how is signal.SIGINT else -9)
    assert how is signal.SIGKILL or "--resume" in told
    assert not (study / "m").exists()
    start("-o", "m", "--resume")
    for file in sorted((study / "whole").iterdir()):
        assert file.read_bytes() == (study / "m" / file.name).read_bytes(), file.name
    assert not (study / "m.checkpoint").exists()


def _snapshot(study, how):
    """Ctrl-C writes a snapshot itself; before a kill there must have been one, or there is nothing to go on from."""
    return how is signal.SIGINT or (study / "m.checkpoint" / "sites.npz").exists()


def test_with_json_an_interruption_is_json_too(study, monkeypatch):
    def interrupt(*_arguments, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedspca.cli.fit.fit_files", interrupt)
    ran = fedspca(*FIT, "-o", "m", "--json")
    assert (ran.code, json.loads(ran.out)["error"]) == (130, "Interrupted. Nothing is kept yet; begin again.")


def test_resume_needs_a_checkpoint(study):
    ran = fedspca(*FIT, "-o", "m", "--resume")
    assert (ran.code, "no checkpoint" in ran.err) == (2, True)


ODD = [
    "naïve β ≤ 3",
    "a,b",
    '"quoted"',
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "[bold red]x[/]",
    "\x1b[31mred",
    "long " + "x" * 500,
    "\u202ereversed",
    "=1+1",
]


def test_odd_names_come_out_right_and_harmless(study):
    rows = make_rows(60)
    names = [*ODD[:8]]
    table = pd.DataFrame(rows, columns=names)
    table["site of"] = [ODD[3], ODD[4], ODD[6]] * 20
    table.to_csv("odd.csv", index=False)
    ran = fedspca("fit", "odd.csv", "--site-column", "site of", "--no-path", "--show-sites", "-o", "m")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    shown = fedspca("show", "m")
    assert "\x1b" not in shown.out
    assert SparsePCAModel.load("m").feature_names == tuple(names)
    fedspca("show", "m", "--csv", "l.csv")
    assert list(pd.read_csv("l.csv")["feature"]) == names
    assert fedspca("report", "m").code == 0
    page = (study / "m.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<script>") == 1
    assert fedspca("transform", "m", "odd.csv", "-o", "s.csv").code == 0
    assert sorted(p.name for p in study.iterdir()) == sorted(
        ["north.csv", "south.parquet", "odd.csv", "m", "m.html", "l.csv", "s.csv"]
    )


def test_a_name_that_a_spreadsheet_would_compute_is_written_as_text(study):
    names = ["=1+1", "+x", "-y", "@z", *NAMES[4:]]
    pd.DataFrame(make_rows(60), columns=names).to_csv("odd.csv", index=False)
    fedspca("fit", "odd.csv", "--no-path", "-o", "m")
    assert fedspca("show", "m", "--csv", "l.csv").code == 0
    assert list(pd.read_csv("l.csv")["feature"]) == ["'=1+1", "'+x", "'-y", "'@z", *NAMES[4:]]
    assert SparsePCAModel.load("m").feature_names == tuple(names)
    ran = fedspca("show", "m", "--csv", "odd.csv")
    assert (ran.code, "it is there already" in ran.err) == (2, True)


def test_json_is_offered_by_what_writes_files_too(study):
    assert json.loads(fedspca("init", "north.csv", "--json").out) == {"output": "fit.toml", "files": ["north.csv"]}
    fedspca(*FIT, "-o", "model")
    assert json.loads(fedspca("report", "model", "--json").out) == {"output": "model.html", "rows_drawn": 0}
    told = json.loads(fedspca("cache", "--cache", "cache", "--json").out)
    assert told == {"folder": "cache", "copies": 0, "bytes": 0, "deleted": False}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("fit", "none.csv"), "none.csv: there is no such file"),
        (("fit", "north.csv", "-r", "x"), "'x' is not a valid integer"),
        (("fit", "north.csv", "--nonzeros", "3"), "--nonzeros"),
        (("check", "north.csv", "--against", "none.json"), "none.json: there is no such file"),
        (("check", "north.csv", "--against", "north.csv"), "north.csv: This is not a schema"),
        (("show", "none"), "not a model"),
    ],
)
def test_with_json_a_mistake_is_json_too(study, command, words):
    ran = fedspca(*command, "--json")
    assert ran.code == 2
    assert words in json.loads(ran.out)["error"]
    assert words in ran.err


def test_every_command_has_help_with_an_example():
    for name in ("init", "check", "fit", "path", "show", "report", "transform", "score", "compare", "cache"):
        ran = fedspca(name, "--help")
        assert ran.code == 0
        assert f"fedspca {name}" in ran.out.replace("Usage: fedspca", "", 1)
