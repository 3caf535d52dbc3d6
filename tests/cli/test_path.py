import json

import numpy as np
import pandas as pd
import pytest

from fedspca.model import SparsePCAModel
from helpers.commands import fedspca
from helpers.study_files import frame, make_rows


def test_path_marks_a_choice(study):
    ran = fedspca("path", "north.csv", "south.parquet", "-o", "path.csv", "--grid", "1,2,3,5,8")
    assert ran.code == 0, ran.err
    assert ran.out.count("<- chosen") == 1
    table = pd.read_csv(study / "path.csv")
    assert table["explained"].is_monotonic_increasing
    assert "whole numbers" in fedspca("path", "north.csv", "--grid", "a").err


@pytest.mark.parametrize("option", [("--nonzero", "3"), ("--solver", "faspca"), ("--lam", "2")])
def test_path_refuses_options_that_it_would_ignore(study, option):
    ran = fedspca("path", "north.csv", "south.parquet", "--grid", "2,3", *option)
    assert ran.code == 2
    assert option[0] in ran.err


def test_path_says_which_settings_of_a_file_it_does_not_use(study):
    (study / "fit.toml").write_text('[data]\nfiles = ["north.csv", "south.parquet"]\n[fit]\nnonzero = 3\n')
    ran = fedspca("path", "fit.toml", "--grid", "2,3")
    assert ran.code == 0
    assert "not used: nonzero" in ran.err


def test_a_path_and_a_fit_tell_the_same_of_the_same_sparsity(study):
    files = ("north.csv", "south.parquet")
    (point,) = json.loads(fedspca("path", *files, "-r", "2", "--grid", "3", "--json").out)["points"]
    fitted = json.loads(fedspca("fit", *files, "-r", "2", "--nonzero", "3", "--no-path", "--json").out)
    assert point["explained"] == pytest.approx(fitted["captured_ratio"], rel=1e-9)
    assert fitted["captured_ratios"][-1] == fitted["captured_ratio"]


def test_a_path_fills_missing_values_in_as_a_fit_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = make_rows(60)
    rows[np.random.default_rng(0).random(rows.shape) < 0.1] = np.nan
    frame(rows).to_csv("holed.csv", index=False)
    told = {}
    for missing in ("mean", "em", "em-once"):
        options = ("holed.csv", "-r", "2", "--missing", missing)
        ran = fedspca("fit", *options, "--nonzero", "3", "-o", missing)
        assert ran.code == 0, ran.err
        told[missing] = fedspca("path", *options, "--grid", "3", "--json").out
        (point,) = json.loads(told[missing])["points"]
        model = SparsePCAModel.load(missing)
        assert point["explained"] == pytest.approx(model.captured_ratio, rel=1e-9)
        assert model.facts["path"]["dense"] == pytest.approx(json.loads(told[missing])["dense"], rel=1e-9)
    assert len(set(told.values())) == 3
