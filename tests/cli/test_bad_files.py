"""Every kind of wrong file: one paragraph, exit code 2, and nothing half-written."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers.commands import fedspca
from helpers.study_files import NAMES, frame, make_rows, write, write_h5ad

HEADER, ROW = ",".join(NAMES), ",".join("1" * 8)


def good_lines(n=10):
    return [HEADER, *(",".join(f"{v:.3f}" for v in row) for row in make_rows(n))]


def text(*lines):
    return lambda path: path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def with_column(values, name="extra"):
    return lambda path: frame(make_rows(len(values))).assign(**{name: values}).to_csv(path, index=False)


def truncated_parquet(path):
    frame(make_rows()).to_parquet(path)
    path.write_bytes(path.read_bytes()[:-100])


def broken_pages(path):
    frame(make_rows(5000)).to_parquet(path, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[200:40_000] = bytes(39_800)
    path.write_bytes(content)


def cell(value):
    def make(path):
        rows = make_rows(20)
        rows[3, 2] = value
        frame(rows).to_csv(path, index=False)

    return make


WRONG = {
    "empty": ("a.csv", lambda path: path.write_bytes(b""), "empty"),
    "ragged": ("a.csv", text(*good_lines(), "1,2,3"), "a row has 3 values where the header has 8"),
    "encoding of the header": (
        "a.csv",
        lambda path: path.write_bytes(b"gr\x81\xdfe,b\n1,2\n"),  # no letter of Windows either
        "--encoding",
    ),
    "encoding of a value": (
        "a.csv",
        lambda path: path.write_bytes(b"a,b,c\n" + b"1,2,x\n" * 9 + b"1,2,\x81\xe9\n"),
        "--e",
    ),
    "duplicated columns": ("a.csv", text("a,b,a", "1,2,3", "2,3,4"), "given more than once: 'a'"),
    "a column of text": ("a.csv", with_column(["x", "y"] * 5), r"'extra' (text)"),
    "text further down": ("a.csv", text("a,b", *(["1,2"] * 9), "oops,2"), "'a'"),
    "dates": ("a.csv", with_column(["2020-01-02"] * 10), "dates or times"),
    "dates in Parquet": (
        "a.parquet",
        lambda path: frame(make_rows(9)).assign(day=pd.Timestamp("2020-01-01")).to_parquet(path),
        "'day' (dates or times)",
    ),
    "inf": ("a.csv", cell(np.inf), "infinity"),
    "too large": ("a.csv", cell(1e200), "too large"),
    "an all-NaN column": ("a.csv", with_column([np.nan] * 10), "'extra' (100%)"),
    "many missing": ("a.csv", with_column([np.nan] * 8 + [1.0, 2.0]), "'extra' (80%)"),
    "one row": ("a.csv", text(HEADER, ROW), "rows"),
    "header only": ("a.csv", text(HEADER), "no rows"),
    "header without an end of line": (
        "a.csv",
        lambda path: path.write_text(HEADER),
        "no row of values below the names",
    ),
    "empty lines": ("a.csv", text("", ""), "no row of values below the names"),
    "a directory": ("a.csv", lambda path: path.mkdir(), "it is a directory"),
    "not there": ("a.csv", lambda path: None, "no such file"),
    "an unknown kind": ("a.xyz", text("x"), "its kind is not known"),
    "a truncated Parquet": ("a.parquet", truncated_parquet, "cannot be read"),
    "a damaged Parquet": ("a.parquet", broken_pages, "cannot be read"),
    "text called Parquet": ("a.parquet", text(*good_lines()), "cannot be read"),
    "text called Arrow": ("a.arrow", text(*good_lines()), "cannot be read"),
    "text called numpy": ("a.npy", text("hello"), "numpy"),
    "text called npz": ("a.npz", text("hello"), "npz"),
    "a pickle": ("a.npy", lambda path: np.save(path, np.array([{}]), allow_pickle=True), "numpy"),
    "text called h5ad": ("a.h5ad", text("hello"), "HDF5"),
    "text called gzip": ("a.csv.gz", text("hello"), "cannot be read"),
    "three dimensions": ("a.npy", lambda path: np.save(path, np.zeros((2, 2, 2))), "3 dimension"),
    "complex numbers": ("a.npy", lambda path: np.save(path, np.zeros((9, 2), complex)), "complex"),
    "100,000 columns": (
        "a.csv",
        text(",".join(f"c{j}" for j in range(100_000)), *([",".join("1" * 100_000)] * 6)),
        "100,000 features",
    ),
    "binary called CSV": ("a.csv", lambda path: path.write_bytes(bytes(range(256)) * 9), "a.csv: "),
    "constant everywhere": ("a.csv", text("a,b", *(["1,2"] * 9)), "constant"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_file_ends_in_one_paragraph(kind, tmp_path):
    name, make, words = WRONG[kind]
    make(tmp_path / name)
    before = sorted(tmp_path.iterdir())
    for command in (("fit", "-o", tmp_path / "model"), ("check",), ("path",)):
        ran = fedspca(command[0], tmp_path / name, *command[1:])
        if command[0] == "check" and ran.code == 1:  # the file can be read: what a fit refuses is listed as a result
            assert words in ran.out
            continue
        assert ran.code == 2, (command, ran)
        assert words in ran.err
        assert ran.err.strip().count("\n") == 0, ran.err
        assert ran.err.startswith("Error: ")
        assert "Traceback" not in ran.err
        assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_no_permission(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", make_rows())
    assert fedspca("check", path).code == 0  # which also loads all that it takes
    path.chmod(0)
    root = os.geteuid() == 0
    tmp_path.chmod(0o755)
    if root:  # who may read everything; nobody may not
        monkeypatch.setattr(Path, "exists", lambda self: True)  # folders above are root's own
        monkeypatch.setattr(Path, "is_dir", lambda self: False)
        os.seteuid(65534)
    try:
        ran = fedspca("check", path)
    finally:
        if root:
            os.seteuid(0)
    assert ran.code == 2
    assert "no permission" in ran.err


def test_a_wrong_file_among_right_ones_is_named(tmp_path):
    write(tmp_path / "north.csv", make_rows())
    write_h5ad(tmp_path / "west.h5ad", make_rows(30, seed=2), sparse=False)
    text("f0,f1", "1,2")(tmp_path / "south.csv")
    ran = fedspca("fit", tmp_path / "north.csv", tmp_path / "south.csv", tmp_path / "west.h5ad", "-o", tmp_path / "m")
    assert ran.code == 2
    assert "'south' lacks 'f2', 'f3', 'f4', 'f5', 'f6' and 1 more" in ran.err
    assert "--common" in ran.err
    assert not (tmp_path / "m").exists()
