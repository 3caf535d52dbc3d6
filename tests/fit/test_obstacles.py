"""``fedspca check`` lists all that ``fedspca fit`` would refuse."""

import json

import numpy as np
import pytest

from helpers.commands import fedspca
from helpers.study_files import NAMES, frame, make_rows, write


def spoiled(tmp_path):
    write(tmp_path / "good.csv", make_rows(40))
    write(tmp_path / "small.csv", make_rows(3, seed=1))
    holes = frame(make_rows(40, seed=2))
    holes["f3"] = np.nan
    holes.to_csv(tmp_path / "holes.csv", index=False)
    return [tmp_path / f"{name}.csv" for name in ("good", "small", "holes")]


def test_all_obstacles_are_shown_at_once(tmp_path):
    ran = fedspca("check", *spoiled(tmp_path), "-r", "2", "--solver", "faspca", "--json")
    assert ran.code == 1
    told = " ".join(json.loads(ran.out)["obstacles"])
    for words in ("'small' holds fewer rows", "'f3' (48%)", "needs --lam"):
        assert words in told


@pytest.mark.parametrize(
    "options",
    [
        ("-r", "9"),
        ("--min-rows", "50"),
        ("--min-rows", "0"),
        ("--nonzero", "3", "--lam", "1"),
        ("--missing", "em", "--adjust", "f1"),
        ("--folds", "4", "--adjust", "f1"),
        ("--folds", "20"),
        ("--nonzero", "2", "--sample", "10"),
        ("--nonzero", "2", "--sample", "2", "--folds", "4"),
        ("--nonzero", "2", "--sample", "2", "--adjust", "f1"),
    ],
)
def test_check_refuses_what_fit_refuses(options, tmp_path):
    path = write(tmp_path / "a.csv", make_rows(30))
    assert fedspca("fit", path, *options, "--no-path", "-o", tmp_path / "m").code == 2
    ran = fedspca("check", path, *options)
    assert ran.code == 1
    assert "a fit would be refused" in ran.out


def test_infinite_values_at_two_sites_are_both_named(tmp_path):
    for name in ("a", "b"):
        rows = make_rows(20)
        rows[3, 1] = np.inf
        write(tmp_path / f"{name}.csv", rows)
    ran = fedspca("check", tmp_path / "a.csv", tmp_path / "b.csv")
    assert ran.code == 1
    assert "'a'" in ran.out
    assert "'b'" in ran.out


def test_columns_of_text_at_two_sites_are_both_named(tmp_path):
    for name in ("a", "b"):
        frame(make_rows(20)).assign(**{f"note_{name}": "x"}).to_csv(tmp_path / f"{name}.csv", index=False)
    ran = fedspca("fit", tmp_path / "a.csv", tmp_path / "b.csv", "-o", tmp_path / "m")
    assert "'note_a'" in ran.err
    assert "'note_b'" in ran.err


def test_a_name_that_is_nearly_right_is_asked_about(tmp_path):
    frame(make_rows(20)).to_csv(tmp_path / "a.csv", index=False)
    frame(make_rows(20)).rename(columns={NAMES[0]: "F 0"}).to_csv(tmp_path / "b.csv", index=False)
    ran = fedspca("check", tmp_path / "a.csv", tmp_path / "b.csv")
    assert ran.code == 1
    assert "'F 0' for 'f0' meant?" in ran.out


@pytest.mark.parametrize("command", ["fit", "choose", "path", "check"])
def test_what_the_policies_of_sites_would_refuse_is_told_in_options(command, tmp_path):
    files = spoiled(tmp_path)[:2]
    output = ("-o", tmp_path / "m") if command == "fit" else ()
    ran = fedspca(command, *files, *output)
    assert "'small' holds fewer rows than the 5 of --min-rows (3)" in ran.out + ran.err
    assert "--leave-out-small" in ran.out + ran.err
    if command != "path":
        ran = fedspca(command, files[0], "--folds", "500", *output)
        assert "--folds must be at most 20. Got 500 instead." in ran.out + ran.err


def test_check_says_what_fit_warns_of(tmp_path):
    for seed, name in enumerate(("a.csv", "b.csv")):
        frame(make_rows(30, seed=seed)).assign(f5=3.0).to_csv(tmp_path / name, index=False)
    ran = fedspca("check", tmp_path / "a.csv", tmp_path / "b.csv")
    assert (
        ran.code,
        "1 feature has one value in every row of every site and gets a weight of zero: f5" in ran.out,
    ) == (0, True)
    assert "Look at what is said above" in ran.out
    assert "f5" in " ".join(json.loads(fedspca("check", tmp_path / "a.csv", "--json").out)["oddities"])


def test_more_non_zeros_than_features_are_no_obstacle_and_told_of(tmp_path):
    path = write(tmp_path / "a.csv", make_rows())
    ran = fedspca("check", path, "--nonzero", "99")
    assert ran.code == 0
    assert "--nonzero is 99, and there are 8 features" in ran.out
    told = fedspca("check", path, "--nonzero", "2", "-r", "1", "--features", "f1").out
    assert "--nonzero is 2, and there is 1 feature:" in told
