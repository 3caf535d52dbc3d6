import json

import pandas as pd
import pytest

from helpers.commands import fedspca


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
