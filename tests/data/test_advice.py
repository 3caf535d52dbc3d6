"""Columns that are no measurements, and files as people have them: what ``fedspca check`` says of each."""

import json
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from fedspca.data.advice import advice, column_facts, missing_code, numbers_as_names, oddity, row_hashes, told_of_copies
from helpers.commands import fedspca


def table(n=40, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(n)
    return pd.DataFrame(
        {
            "age": np.round(50 + 10 * rng.standard_normal(n)),
            "bmi": np.round(25 + 3 * z + rng.standard_normal(n), 1),
            "pressure": np.round(120 + 10 * z + 5 * rng.standard_normal(n), 1),
            "größe": np.round(170 + 8 * rng.standard_normal(n), 1),
        }
    )


def as_r_writes(frame, path):
    head = " ".join(f'"{name}"' for name in frame)
    lines = [f'"{i + 1}" ' + " ".join(map(str, row)) for i, row in enumerate(frame.values)]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")


def coded(frame):
    return frame.assign(pressure=frame["pressure"].where(np.arange(len(frame)) % 13 != 0, -99))


# What a person has, how it is written, the options, and the words of the advice; exit code 0 where a fit would run.
FILES = {
    "latin-1": (lambda f, p: f.to_csv(p, index=False, encoding="latin-1"), (), "größe|--encoding"),
    "latin-1, named": (lambda f, p: f.to_csv(p, index=False, encoding="latin-1"), ("--encoding", "latin-1"), "größe"),
    "decimal comma": (lambda f, p: f.to_csv(p, index=False, sep=";", decimal=","), ("--decimal", ","), "bmi +40 +1"),
    "semicolon": (lambda f, p: f.to_csv(p, index=False, sep=";"), (), "bmi +40 +1"),
    "byte order mark": (lambda f, p: f.to_csv(p, index=False, encoding="utf-8-sig"), (), r"\nage +40"),
    "R's write.table": (as_r_writes, (), "age"),
    "pandas' index": (lambda f, p: f.to_csv(p), (), r"counts the rows: is it a row number\? .*--exclude '\"\"'"),
    "identifiers": (
        lambda f, p: f.assign(pid=np.random.default_rng(1).permutation(900)[:40]).to_csv(p, index=False),
        (),
        r"'pid' has the name of an identifier. .*--exclude pid",
    ),
    "dates": (
        lambda f, p: f.assign(visit=pd.date_range("2020-01-01", periods=len(f)).astype(str)).to_csv(p, index=False),
        (),
        r"'visit' \(dates or times\).*--exclude",
    ),
    "-99 for missing": (lambda f, p: coded(f).to_csv(p, index=False), (), "value -99 4 time.*does it mean missing"),
    "one row": (lambda f, p: f[:1].to_csv(p, index=False), (), "fewer rows than the 5 of --min-rows"),
    "rows twice": (
        lambda f, p: pd.concat([f, f[:10]]).to_csv(p, index=False),
        (),
        "10 rows of site .* are there twice",
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_that_people_have_get_the_right_advice(kind, tmp_path):
    write, options, words = FILES[kind]
    write(table(), tmp_path / "north.csv")
    ran = fedspca("check", tmp_path / "north.csv", *options)
    assert re.search(words, ran.out + ran.err), ran
    assert "Traceback" not in ran.err


def test_names_in_other_cases_are_asked_about_and_can_be_taken_for_one(tmp_path):
    table().to_csv(tmp_path / "a.csv", index=False)
    table(seed=1).rename(columns=str.upper).to_csv(tmp_path / "b.csv", index=False)
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    assert re.search("is 'AGE' for 'age'.*meant.*--rename", fedspca("check", *files).out)
    renamed = [part for name in table() for part in ("--rename", f"{name}={name.upper()}")]
    assert fedspca("check", *files, *renamed).code == 0
    ran = fedspca("fit", *files, *renamed, "--no-path", "-o", tmp_path / "m")
    assert ran.code == 0
    scored = fedspca("transform", tmp_path / "m", tmp_path / "b.csv", "-o", tmp_path / "s.csv")
    assert scored.code == 0, scored.err


def test_check_prints_every_feature_with_count_range_and_missing(tmp_path):
    frame = table()
    frame.loc[:9, "bmi"] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    seen = {row["feature"]: row for row in json.loads(fedspca("check", tmp_path / "a.csv", "--json").out)["features"]}
    assert seen["bmi"]["count"] == 30
    assert seen["bmi"]["missing"] == 0.25
    assert seen["age"]["range"] == [frame["age"].min(), frame["age"].max()]
    assert seen["age"]["odd"] is None
    assert re.search(r"bmi +30 +\S+ +\S+ +25.0%", fedspca("check", tmp_path / "a.csv").out)


def test_a_site_that_is_too_small_is_left_out_on_request(tmp_path):
    for name, n in (("a", 40), ("b", 3)):
        table(n).to_csv(tmp_path / f"{name}.csv", index=False)
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    assert "--leave-out-small" in fedspca("check", *files).out
    ran = fedspca("fit", *files, "--leave-out-small", "--no-path", "-o", tmp_path / "m")
    assert ran.code == 0
    assert "left out, with fewer than 5 rows: 'b' (3 rows)" in ran.err
    assert fedspca("fit", tmp_path / "b.csv", "--leave-out-small", "-o", tmp_path / "n").code == 2


@pytest.mark.parametrize(
    ("name", "values", "odd"),
    [
        ("x", np.arange(20), "counts the rows"),
        ("x", np.arange(20)[::-1] * 3, "counts the rows"),
        ("x", np.random.default_rng(0).permutation(5000)[:60], "no two alike"),
        ("Patient ID", np.arange(20) % 5, "identifier"),
        ("zip", [90210, 10001, 10001, 60601], "postcode"),
        ("x", [1.5, 2.5, 1.7, -999.0, 2.2], "-999"),
        ("age", [34, 51, 47, 62, 999, 44], "999"),
        ("age", [34, 51, 47, 62, 34, 44], None),
        ("temperature", [-9.0, -4.0, 9.0, 5.0, 3.0], None),
        ("x", np.linspace(0, 1, 50), None),
        ("width", [3, 4, 5, 3, 9], None),
        ("paid", [0, 1, 1, 0], None),
        ("leucocytes", np.rint(np.random.default_rng(0).lognormal(size=60) * 1e4) * 1e8, None),
        ("x", np.random.default_rng(0).lognormal(size=60) * 1e18, None),  # a double of this size is whole
        ("x", np.sort(np.random.default_rng(0).lognormal(size=60) * 1e18), None),
        ("patient_id", np.random.default_rng(0).lognormal(size=60) * 1e18, "identifier"),
        ("x", np.random.default_rng(0).permutation(5000)[:60] - 2500, None),  # identifiers have no sign
    ],
)
def test_what_is_odd_about_a_column(name, values, odd):
    said = oddity(name, np.asarray(values, dtype=float))
    assert said is None if odd is None else odd in said.one


def test_codes_inside_the_range_are_values():
    assert missing_code(np.array([90.0, 99.0, 105.0, 110.0])) is None
    assert missing_code(np.array([1.0, 2.0, 99.0])) == 99


def test_rows_of_a_few_codes_are_alike_by_chance():
    assert row_hashes(np.zeros((50, 3))) == []
    assert row_hashes(np.random.default_rng(0).integers(0, 2, (60, 3)).astype(float)) == []
    assert row_hashes(sp.csr_array(np.ones((3, 3)))) == []


def test_a_table_that_is_given_twice_is_asked_about():
    rows, others = np.random.default_rng(0).standard_normal((2, 40, 3))
    names = ["f", "g", "h"]
    (told,) = advice(names, [("a", rows), ("b", others), ("again", rows[::-1])])
    assert told.startswith("40 rows of site 'again' are also at site 'a', value by value")
    (told,) = advice(names, [("a", np.concatenate([rows, others])), ("part", others[:9])])
    assert told.startswith("9 rows of site 'part' are also at site 'a'")
    assert advice(names, [("a", rows), ("b", np.concatenate([others, rows[:3]]))]) == []


def test_a_column_is_asked_about_once_and_the_sites_are_named_if_only_some_have_it():
    good, odd = np.random.default_rng(0).standard_normal((2, 20, 1))
    codes = np.where(np.arange(20)[:, None] == 3, -99.0, odd)
    (both,) = advice(["f"], [("a", codes), ("b", np.where(codes == -99, -99, good))])
    assert "(at" not in both
    (one,) = advice(["f"], [("a", good), ("b", codes)])
    assert one.endswith("(at 'b')")


def test_many_columns_about_which_the_same_is_asked_share_a_sentence():
    rng = np.random.default_rng(0)
    names = [f"f{j}" for j in range(12)]
    good, ids = rng.standard_normal((60, 12)), np.stack([rng.permutation(5000)[:60] for _ in names], axis=1)
    (one,) = advice(names, [("a", ids.astype(float))])
    assert one == (
        "Each of 'f0', 'f1', 'f2', 'f3', 'f4' and 7 more holds whole numbers, no two alike: is it an identifier? If "
        "so, leave it out with --exclude"
    )
    codes = np.where(rng.random((60, 12)) < 0.1, -99.0, good)  # not as often in each column
    (one,) = advice(names, [("a", good), ("b", codes)])
    assert one.startswith("Each of 'f0', 'f1', 'f2', 'f3', 'f4' and 7 more has the value -99, far from all others")
    assert one.endswith("(at 'b')")
    few = advice(names[:3], [("a", ids[:, :3].astype(float))])
    assert [each.split(" ")[0] for each in few] == ["'f0'", "'f1'", "'f2'"]


@pytest.mark.parametrize(
    ("names", "asked"),
    [
        (["5.1", "3.5", "1.4", "0.2"], True),
        (["5,1", " -3.5e-2", ".4"], True),
        (["1", "2", "3"], True),  # so few may be in order by chance
        ([str(wave) for wave in range(400, 420)], False),
        (["401", *(str(wave) for wave in range(400, 420))], True),
        (["0", "1", "2"], False),  # what pandas writes where nobody named the columns
        (["5.1", "width"], False),
        (["x1", "x2"], False),
        (["1st", "2nd"], False),
        ([], False),
    ],
)
def test_names_that_are_all_numbers_may_be_a_row_of_values(names, asked):
    assert (numbers_as_names(names) is not None) == asked


def test_a_table_without_names_is_asked_about_by_check_and_fit(tmp_path):
    table(60).to_csv(tmp_path / "bare.csv", index=False, header=False)
    for command in (("check",), ("fit", "-o", tmp_path / "m")):
        ran = fedspca(command[0], tmp_path / "bare.csv", *command[1:])
        assert "The names of all features are numbers (" in " ".join((ran.out + ran.err).split())
    table(60).assign(again=1, once=1).to_csv(tmp_path / "bare.csv", index=False, header=False)  # two names are 1
    assert "Does the table lack the row with the names?" in fedspca("check", tmp_path / "bare.csv").err
    table(60).to_csv(tmp_path / "named.csv", index=False)
    assert "names of all features" not in fedspca("check", tmp_path / "named.csv").out


def test_looking_for_repeated_rows_does_not_copy_them():
    rows = np.random.default_rng(0).standard_normal((20_000, 60))
    rows[7] = rows[19_999]
    tracemalloc.start()
    (told,) = told_of_copies({"a": row_hashes(rows)})
    assert told.startswith("1 row of site 'a' is there twice, value by value: was it")
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert peak < 5.0  # the rows take 9.6 MB


def test_of_wide_rows_fewer_are_looked_at(monkeypatch):
    monkeypatch.setattr("fedspca.data.advice.LOOKED_BYTES", 8 * 3 * 2000)
    rows = np.random.default_rng(0).standard_normal((5000, 3))
    assert {facts.rows for facts in column_facts(["a", "b", "c"], rows)} == {2000}
    assert {facts.rows for facts in column_facts([str(j) for j in range(60)], np.zeros((5000, 60)))} == {1000}
