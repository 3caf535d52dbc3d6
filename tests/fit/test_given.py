"""A covariance in a file: what is read, and what is refused in words."""

import gzip

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine

from fedspca import ExactSPCA
from fedspca.fit import FitSettings, fit_covariance_file, fit_files
from fedspca.fit.given import read_covariance
from helpers.commands import fedspca

NAMES = ["alcohol", "säure", "ash", "phenols", "hue"]
R = np.corrcoef(load_wine().data[:, [0, 1, 2, 5, 10]].T).round(6)
TABLE = pd.DataFrame(R, NAMES, NAMES)


def read(path, **settings):
    return read_covariance(path, FitSettings(covariance=str(path), **settings))


def text_of(lines, separator=","):
    return "\n".join(separator.join(map(str, line)) for line in lines) + "\n"


WRITTEN = {
    "without names of rows": (lambda p: TABLE.to_csv(p, index=False), {}),
    "with names of rows": (TABLE.to_csv, {}),
    "R's write.table": (lambda p: p.write_text(TABLE.to_csv().lstrip(",")), {}),
    "semicolons and decimal commas": (lambda p: TABLE.to_csv(p, sep=";", decimal=","), {}),
    "tabs": (lambda p: TABLE.to_csv(p, sep="\t"), {}),
    "said": (lambda p: TABLE.to_csv(p, sep="|"), {"separator": "|"}),
    "Excel's line": (lambda p: p.write_text("sep=;\n" + TABLE.to_csv(sep=";")), {}),
    "UTF-16": (lambda p: TABLE.to_csv(p, encoding="utf-16"), {}),
    "byte order mark": (lambda p: TABLE.to_csv(p, index=False, encoding="utf-8-sig"), {}),
    "of Windows": (lambda p: TABLE.to_csv(p, encoding="cp1252"), {}),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_a_covariance_is_read_however_tables_are_written(tmp_path, how):
    write, options = WRITTEN[how]
    write(tmp_path / "S.csv")
    found = read(tmp_path / "S.csv", **options).federation
    assert found.feature_names == tuple(NAMES)
    assert np.array_equal(found.covariance, R)


def test_it_may_be_compressed(tmp_path):
    (tmp_path / "S.csv.gz").write_bytes(gzip.compress(TABLE.to_csv().encode()))
    assert np.array_equal(read(tmp_path / "S.csv.gz").federation.covariance, R)


def test_numbers_are_names_only_where_they_can_be_nothing_else(tmp_path):
    path = tmp_path / "S.csv"
    for index in (False, True):  # beside an empty corner, or above a matrix that is square without them
        pd.DataFrame(R, range(400, 405), range(400, 405)).to_csv(path, index=index)
        assert read(path).federation.feature_names == ("400", "401", "402", "403", "404")


def without(*cells, value=""):
    table = TABLE.astype(object)
    for i, j in cells:
        table.iloc[i, j] = value
    return table.to_csv()


REFUSED = {
    "no header": (TABLE.to_csv(index=False, header=False), "first row must have the features' names, and it has num"),
    "no header, decimal commas": (
        TABLE.to_csv(index=False, header=False, sep=";", decimal=","),
        "first row must have the features' names",
    ),
    "no header, names of rows": (TABLE.to_csv(header=False), "first row must have the features' names"),
    "other names of rows": (
        pd.DataFrame(R, NAMES[::-1], NAMES).to_csv(),
        "row 1 is called 'hue' and column 1 'alcohol'",
    ),
    "not square": (
        TABLE[:4].to_csv(index=False),
        "names in the first row is 5, .* rows below it is 4. If lines stand above the names",
    ),
    "short row": (TABLE.to_csv(index=False).replace(f"{R[2, 3]},{R[2, 4]}", "1"), r"row 3 .*'ash'\) has 4 values"),
    "a triangle": (without(*zip(*np.triu_indices(5, 1), strict=True)), "only one triangle"),
    "the other": (without(*zip(*np.tril_indices(5, -1), strict=True)), "only one triangle"),
    "short rows of a triangle": (text_of([NAMES, *(list(R[i, : i + 1]) for i in range(5))]), "only one triangle"),
    "no value": (without((1, 3)), r"no value in row 2 \('säure'\), column 4 \('phenols'\).* 1 of 25"),
    "ragged": ("a,b\n2,1\n1,2,3\n", r"row 2 of the matrix \('b'\) has 3 values where there are 2 features"),
    "NaN": (without((1, 3), (3, 1), value="NaN"), r"no value in row 2 .* 2 of 25"),
    "a word": (without((2, 0), value="much"), r"'much' in row 3 \('ash'\), column 1 \('alcohol'\) is no number"),
    "a comma": (without((2, 0), value="0,5"), "pass --decimal ','"),
    "nothing": ("a,b\n", "there is no matrix"),
    "the same name twice": (TABLE.rename(columns={"ash": "hue"}).to_csv(index=False), "more than once: 'hue'"),
    "not symmetric": (without((0, 1), value="0.9"), "not symmetric"),
    "a negative variance": (
        without((2, 2), value="-1"),
        r"negative variance: -1 in row 3 \('ash'\), column 3 \('ash'\)",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_no_covariance_is_refused_with_the_file_and_the_place(tmp_path, why):
    text, told = REFUSED[why]
    (tmp_path / "S.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"S\.csv: .*{told}"):
        read(tmp_path / "S.csv")


def test_signs_and_encodings_that_are_none_are_refused_at_the_command_line(tmp_path):
    TABLE.to_csv(tmp_path / "S.csv")
    TABLE.to_csv(tmp_path / "latin.csv", encoding="latin-1")
    TABLE.to_parquet(tmp_path / "S.parquet")
    for file, given, told in (
        ("S.csv", ("--separator", r"\t"), "--separator is one sign"),
        ("S.csv", ("--encoding", "foo"), "no encoding called 'foo'"),
        ("latin.csv", ("--encoding", "utf-8"), "latin.csv: it is not text in the encoding utf-8"),
        ("S.parquet", (), "S.parquet: it is not a text table. Save it as .csv."),
        ("none.csv", (), "none.csv: there is no such file"),
    ):
        ran = fedspca("fit", "--covariance", tmp_path / file, *given, "-o", tmp_path / "m")
        assert (ran.code, told in ran.err) == (2, True), ran.err


def test_features_are_chosen_and_named_as_in_tables(tmp_path):
    path = tmp_path / "S.csv"
    TABLE.to_csv(path)
    given = {"features": ("hue", "alc", "ash"), "rename": {"alc": ("alcohol",)}}
    found = read(path, **given).federation
    assert found.feature_names == ("hue", "alc", "ash")
    assert np.array_equal(found.covariance, R[np.ix_([4, 0, 2], [4, 0, 2])])
    assert read(path, exclude=("säure",)).federation.feature_names == ("alcohol", "ash", "phenols", "hue")
    with pytest.raises(ValueError, match=r"S\.csv: there is no column 'hu'"):
        read(path, features=("hu",))
    gaps = tmp_path / "gaps.csv"
    gaps.write_text(without(*((2, j) for j in range(5)), *((i, 2) for i in range(5))))  # as the message advises
    kept = [0, 1, 3, 4]
    assert np.array_equal(read(gaps, exclude=("ash",)).federation.covariance, R[np.ix_(kept, kept)])
    assert "hue=colour: no file has" in read(path, rename={"hue": ("colour",)}).told[-1]
    model = fit_covariance_file(FitSettings(covariance=str(path), exclude=("säure",), nonzero=2))
    part = ExactSPCA(2, n_nonzero=2, scale=True).fit_covariance(R[np.ix_([0, 2, 3, 4], [0, 2, 3, 4])])
    assert np.allclose(model.components, part.components_)


IGNORED = {
    "id": "alcohol",
    "label": "alcohol",
    "site_column": "alcohol",
    "common": True,
    "min_rows": 3,
    "leave_out_small": True,
    "show_sites": True,
    "categories": {"sex": ("F", "M")},
    "sheet": "one",
    "query": "SELECT",
    "cache": "here",
    "adjust": ("age",),
    "transform": ("log1p",),
    "centre": "site",
    "weight": "often",
    "variable": 3,
    "max_missing": 0.1,
}


@pytest.mark.parametrize("name", IGNORED)
def test_what_a_covariance_would_ignore_is_refused(tmp_path, name):
    TABLE.to_csv(tmp_path / "S.csv")
    settings = FitSettings(covariance=str(tmp_path / "S.csv"), **{name: IGNORED[name]})
    with pytest.raises(ValueError, match=rf"--{name.replace('_', '-')} needs rows, .*: leave it out"):
        fit_covariance_file(settings)


def test_the_number_of_rows_is_checked_and_is_of_a_covariance_only(tmp_path):
    with pytest.raises(ValueError, match=r"--covariance-rows must be at least 2\. Got 1"):
        fit_covariance_file(FitSettings(covariance=str(tmp_path / "S.csv"), covariance_rows=1))
    with pytest.raises(ValueError, match="--covariance-rows is for --covariance"):
        fit_files(FitSettings(files=("north.csv",), covariance_rows=20))


def test_a_folder_in_the_place_of_a_covariance(tmp_path):
    with pytest.raises(ValueError, match=r"it is a directory\. Name the file in it with the matrix\."):
        read(tmp_path)


def test_a_variance_of_zero_is_told_of_the_covariance_and_not_of_rows(tmp_path):
    flat = TABLE.copy()
    flat.iloc[2, :] = flat.iloc[:, 2] = 0.0
    flat.to_csv(tmp_path / "S.csv")
    ran = fedspca("fit", "--covariance", tmp_path / "S.csv", "--nonzero", "2", "-o", tmp_path / "m")
    assert "1 feature has a variance of zero in the covariance and gets a weight of zero: " in ran.err
    (0.0 * flat).to_csv(tmp_path / "S.csv")
    ran = fedspca("fit", "--covariance", tmp_path / "S.csv", "--nonzero", "2", "-o", tmp_path / "n")
    assert (ran.code, "site" in ran.err) == (2, False), ran.err
