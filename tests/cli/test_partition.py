import csv

import numpy as np
import pytest

from helpers.commands import fedspca as run_command
from helpers.exit_code import fedspca


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["age", "marker", "arm"])
        writer.writerows([f"{a:.4f}", f"{b:.4f}", "xy"[k % 2]] for k, (a, b) in enumerate(rng.random((40, 2))))
    return path


@pytest.mark.parametrize(
    "how",
    [
        ["order"],
        ["label", "--column", "arm"],
        ["dirichlet", "--column", "arm", "--alpha", "2"],
        ["quantity"],
        ["feature", "--column", "age"],
        ["score", "--column", "arm"],
    ],
)
def test_a_table_is_dealt_out_whole(table, tmp_path, how):
    assert fedspca("partition", table, "--sites", 3, "--out", tmp_path / "sites", "--by", *how) == 0
    files = sorted((tmp_path / "sites").iterdir())
    assert [file.name for file in files] == ["site-1.csv", "site-2.csv", "site-3.csv"]
    parts = [file.read_text().splitlines() for file in files]
    assert all(part[0] == "age,marker,arm" for part in parts)
    assert sorted(line for part in parts for line in part[1:]) == sorted(table.read_text().splitlines()[1:])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (["label"], "--by label needs --column, one of: age, marker, arm."),
        (["label", "--column", "sex"], "There is no column 'sex'"),
        (["score"], "Column 'arm' is not all numbers"),
        (["feature", "--column", "age", "--strength", "3"], "'strength' must lie between 0 and 1"),
    ],
)
def test_a_partition_that_cannot_be_is_one_paragraph(table, tmp_path, capsys, how, words):
    assert fedspca("partition", table, "--sites", 3, "--out", tmp_path / "sites", "--by", *how) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "sites").exists()


def test_a_partition_replaces_no_file_unasked(table, tmp_path, capsys):
    how = ("partition", table, "--sites", 2, "--out", tmp_path / "sites", "--by", "order")
    assert fedspca(*how) == 0
    (tmp_path / "sites" / "site-1.csv").write_text("mine")
    assert fedspca(*how) != 0
    assert "site-1.csv: it is there already" in capsys.readouterr().err
    assert (tmp_path / "sites" / "site-1.csv").read_text() == "mine"
    assert fedspca(*how, "--force") == 0
    assert (tmp_path / "sites" / "site-1.csv").read_text() != "mine"


def test_partition_says_that_it_takes_csv(study):
    ran = run_command("partition", "south.parquet", "--by", "order", "--sites", "2", "--out", "parts")
    assert ran.code == 2
    assert "south.parquet: it is not a CSV file" in ran.err
    assert "codec" not in ran.err
