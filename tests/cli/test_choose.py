import json

import numpy as np
import pandas as pd

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
