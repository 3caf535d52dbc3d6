import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fedspca.model import SparsePCAModel
from helpers.commands import fedspca
from helpers.small_study import FIT
from helpers.study_files import frame, make_rows


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


def test_the_paper_is_reached_from_the_command_line_and_from_a_file(study):
    paper = ("--solver", "fsspca", "--preset", "paper", "--max-rounds", "3", "--no-path", "--json")
    refused = fedspca("fit", "north.csv", "south.parquet", *paper, "--lam", "20", "-o", "m")
    assert (refused.code, "needs --lam1" in refused.out, "--lam1 10" in refused.out) == (2, True, True)
    given = ("--lam", "20", "--lam1", "1", "--block-sizes", "1,1", "--rho", "500")
    ran = fedspca("fit", "north.csv", "south.parquet", *paper, *given, "-o", "m")
    assert ran.code == 0, ran.err
    made = SparsePCAModel.load(study / "m").facts["estimator"]["params"]
    assert (made["lam1"], made["rho"], made["block_sizes"], made["init"]) == (1.0, 500.0, [1, 1], "random")
    assert (made["local_steps"], made["line_search"], made["finish"]) == (1000, "wolfe", "qf")
    assert made["direction"] == "newton"
    printed = fedspca("fit", "north.csv", *paper, *given, "--direction", "steepest", "-o", "printed")
    assert printed.code == 0, printed.err
    assert SparsePCAModel.load(study / "printed").facts["estimator"]["params"]["direction"] == "steepest"
    wrong = fedspca("fit", "north.csv", *paper, *given, "--direction", "uphill", "-o", "no")
    assert "--direction must be" in wrong.err.replace("\n", " ")
    each = ("--solver", "faspca", "--max-rounds", "3", "--no-path", "--json")
    assert fedspca("fit", "north.csv", "south.parquet", *each, "--lam", "60,600", "-o", "two").code == 0
    assert SparsePCAModel.load(study / "two").facts["estimator"]["params"]["lam"] == [60.0, 600.0]
    for given, told in (("60,600,7", "has 3 numbers, and there are 2 components"), ("60,much", "must be a number, or")):
        assert told in fedspca("fit", "north.csv", *each, "--lam", given, "-o", "no").err
    exact = ("fit", "north.csv", "--no-path", "--json")
    assert fedspca(*exact, "--nonzero", "3,2", "-o", "three").code == 0
    assert SparsePCAModel.load(study / "three").nonzeros == [3, 2]
    wrong = (("3,2,1", "--nonzero has 3 numbers, and there are 2"), ("3,x", "one for each component, or auto. Got"))
    for given, told in wrong:
        assert told in fedspca(*exact, "--nonzero", given, "-o", "no").err
    (study / "fit.toml").write_text('[data]\nfiles = ["north.csv"]\n[fit]\nnonzero = [3, 2]\npath = false\n')
    assert fedspca("fit", "fit.toml", "-o", "four").code == 0
    assert SparsePCAModel.load(study / "four").nonzeros == [3, 2]
    assert "fit.toml: a settings file stands alone" in fedspca("fit", "fit.toml", "north.csv", "-o", "n").err
    settings = '[data]\nfiles = ["north.csv"]\n[fit]\nsolver = "faspca"\nlam = 1.0\nblock_sizes = [1, 1.5]\n'
    (study / "fit.toml").write_text(settings)
    assert "block_sizes must be a list of whole numbers" in fedspca("fit", "fit.toml", "-o", "n").err
    assert "--block-sizes must be a list of whole numbers" in fedspca("fit", "north.csv", "--block-sizes", "one").err


# A fit that saves a snapshot after round 20, as it would if time was up, and then waits in round 25 to be interrupted.
# It once ran freely, and on a busy machine it had sometimes ended before the signal came.
WAITING = """
import sys, time
from fedspca.federation.checkpoint import CheckpointedFederation
ask = CheckpointedFederation.sum

def sum_and_wait(self, query):
    answer = ask(self, query)
    if self._number == 20:
        self.save()
    if self._number == 25:
        print("waiting", flush=True)
        time.sleep(600)
    return answer

CheckpointedFederation.sum = sum_and_wait
from fedspca.cli.app import run
run(sys.argv[1:])
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_and_resumed_gives_the_same_bytes(study, how):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.standard_normal((60, 300)) @ np.diag(np.linspace(3, 1, 300)))
    wide.add_prefix("f").to_csv("wide.csv", index=False)
    command = ("fit", "wide.csv", "--solver", "faspca", "--lam", "1", "--tol", "1e-14", "--max-rounds", "60")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

    def start(code, *more):
        return subprocess.Popen(
            [sys.executable, *code, *command, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    start(("-m", "fedspca"), "-o", "whole").communicate()
    process = start(("-c", WAITING), "-o", "m")
    assert process.stdout.readline() == "waiting\n", process.communicate()
    process.send_signal(how)
    told = process.communicate()[1]
    assert process.returncode == (130 if how is signal.SIGINT else -9)
    assert how is signal.SIGKILL or "--resume" in told
    assert not (study / "m").exists()
    start(("-m", "fedspca"), "-o", "m", "--resume").communicate()
    for file in sorted((study / "whole").iterdir()):
        assert file.read_bytes() == (study / "m" / file.name).read_bytes(), file.name
    assert not (study / "m.checkpoint").exists()


def test_with_json_an_interruption_is_json_too(study, monkeypatch):
    def interrupt(*_arguments, **_settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("fedspca.fit.fit_files", interrupt)
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


def test_the_help_says_that_a_path_takes_time_and_how_to_leave_it_out():
    told = " ".join(fedspca("fit", "--help").out.replace("│", " ").split())
    assert "several times as long as the fit" in told
    assert "(--no-path) leaves it out" in told
