import numpy as np
import pandas as pd
import pytest

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


def test_transform_refuses_and_leaves_nothing(study):
    fedspca(*FIT, "-o", "model")
    frame(make_rows(30)).drop(columns="f3").to_csv(study / "new.csv", index=False)
    ran = fedspca("transform", "model", "new.csv", "-o", "scores.csv")
    assert (ran.code, "lacks 'f3'" in ran.err) == (2, True)
    (study / "late.csv").write_text(",".join(NAMES) + "\n" + "1,1,1,1,1,1,1,1\n" * 9 + "1,1,1,inf,1,1,1,1\n")
    assert "infinity" in fedspca("transform", "model", "late.csv", "-o", "scores.csv").err
    assert ".csv, .parquet, .npy" in fedspca("transform", "model", "north.csv", "-o", "scores.xls").err
    assert sorted(p.name for p in study.iterdir() if "scores" in p.name or "part" in p.name) == []
