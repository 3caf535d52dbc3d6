import numpy as np
import pandas as pd
import pytest

from fedspca.linalg.maps import map_of
from fedspca.model import SparsePCAModel
from helpers.commands import fedspca
from helpers.small_study import FIT
from helpers.study_files import NAMES, frame, make_rows


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


@pytest.mark.parametrize("command", [("transform", "model"), ("score", "model"), ("path",)])
def test_the_rows_that_are_read_are_not_replaced(study, command):
    fedspca(*FIT, "-o", "model")
    before = (study / "north.csv").read_bytes()
    ran = fedspca(*command, "north.csv", "-o", study / "north.csv", "--force")
    assert ran.code == 2
    assert "north.csv: its rows are read, and would be lost. Choose another name." in ran.err
    assert (study / "north.csv").read_bytes() == before


def test_transform_refuses_and_leaves_nothing(study):
    fedspca(*FIT, "-o", "model")
    frame(make_rows(30)).drop(columns="f3").to_csv(study / "new.csv", index=False)
    ran = fedspca("transform", "model", "new.csv", "-o", "scores.csv")
    assert (ran.code, "lacks 'f3'" in ran.err) == (2, True)
    (study / "late.csv").write_text(",".join(NAMES) + "\n" + "1,1,1,1,1,1,1,1\n" * 9 + "1,1,1,inf,1,1,1,1\n")
    assert "infinity" in fedspca("transform", "model", "late.csv", "-o", "scores.csv").err
    assert ".csv, .parquet, .npy" in fedspca("transform", "model", "north.csv", "-o", "scores.xls").err
    assert sorted(p.name for p in study.iterdir() if "scores" in p.name or "part" in p.name) == []


def test_new_rows_are_adjusted_with_the_coefficients_of_the_model(study):
    rng = np.random.default_rng(0)
    for name, seed in (("x.csv", 1), ("y.csv", 2)):
        table = frame(make_rows(40, seed)).assign(age=rng.normal(50, 9, 40).round(1), sex=rng.choice(["F", "M"], 40))
        table["f0"] += table["age"]
        table.to_csv(study / name, index=False)
    ran = fedspca("fit", "x.csv", "y.csv", "--adjust", "age,sex", "--nonzero", "3", "--no-path", "-o", "adjusted")
    assert "Taken out of the features: age, sex. Together they explain" in ran.out
    ran = fedspca("transform", "adjusted", "y.csv", "-o", "scores.npy")
    assert ran.code == 0
    model, new = SparsePCAModel.load(study / "adjusted"), pd.read_csv(study / "y.csv")
    lines = np.column_stack([new["age"], new["sex"] == "M"])
    left = new[NAMES].to_numpy() - model.mean - (lines - model.covariate_mean) @ model.coefficients
    assert np.allclose(np.load(study / "scores.npy"), left / model.scale @ model.components.T, atol=1e-10)
    new.drop(columns="age").to_csv(study / "z.csv", index=False)
    ran = fedspca("transform", "adjusted", "z.csv", "-o", "other.npy")
    assert (ran.code, "it lacks 'age', which the model was adjusted for" in ran.err) == (2, True)
    assert "explain" in fedspca("score", "adjusted", "y.csv").out


def test_new_rows_of_a_known_site_are_harmonised_as_in_the_fit(study):
    ran = fedspca(*FIT, "--centre", "combat", "-o", "own")
    assert "taken out of its rows (ComBat)" in ran.out
    assert fedspca("transform", "own", "north.csv", "-o", "whole.npy").code == 0
    pd.read_csv(study / "north.csv")[:1].to_csv(study / "one.csv", index=False)
    ran = fedspca("transform", "own", "one.csv", "-o", "one.npy")
    assert (ran.code, "needs two rows" in ran.err) == (2, True)
    assert "name its rows there with --site-rows" in " ".join(ran.err.split())
    assert fedspca("transform", "own", "one.csv", "--site-rows", "north.csv", "-o", "one.npy").code == 0
    assert np.allclose(np.load(study / "one.npy"), np.load(study / "whole.npy")[:1], atol=1e-10)
    fedspca(*FIT, "-o", "joint")
    ran = fedspca("score", "joint", "one.csv", "--site-rows", "north.csv")
    assert (ran.code, "this one does not" in ran.err) == (2, True)


@pytest.mark.parametrize("transform", ["winsorise", "normal"])
def test_new_rows_are_transformed_as_in_the_fit(study, transform):
    assert "first transformed" in fedspca(*FIT, "--transform", transform, "-o", "other").out
    assert fedspca("transform", "other", "north.csv", "-o", "scores.npy").code == 0
    model, new = SparsePCAModel.load(study / "other"), pd.read_csv(study / "north.csv")[NAMES].to_numpy()
    seen = map_of(model.maps)(new)
    assert np.allclose(np.load(study / "scores.npy"), (seen - model.mean) / model.scale @ model.components.T)
    ran = fedspca(*FIT, "--transform", "normal,log1p", "-o", "never")
    assert (ran.code, "must be the last" in ran.err) == (2, True)


def test_rows_of_a_site_are_seen_about_their_own_mean(study):
    fedspca(*FIT, "--centre", "site", "-o", "own")
    ran = fedspca("transform", "own", "north.csv", "-o", "scores.npy")
    assert "taken as the rows of one site" in ran.err
    assert np.allclose(np.load(study / "scores.npy").mean(axis=0), 0.0, atol=1e-10)
    assert fedspca("score", "own", "north.csv", "--anomaly").code == 0
