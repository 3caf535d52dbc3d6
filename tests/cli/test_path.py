import pandas as pd

from helpers.commands import fedspca


def test_path_marks_a_choice(study):
    ran = fedspca("path", "north.csv", "south.parquet", "-o", "path.csv", "--grid", "1,2,3,5,8")
    assert ran.code == 0, ran.err
    assert ran.out.count("<- chosen") == 1
    table = pd.read_csv(study / "path.csv")
    assert table["explained"].is_monotonic_increasing
    assert "whole numbers" in fedspca("path", "north.csv", "--grid", "a").err
