import numpy as np
import pytest

from fedspca.data import Columns, TextOptions, choose, open_table, read_sites
from fedspca.data.formats import how_read
from helpers.reading import read


def test_the_first_values_do_not_decide_between_whole_numbers_and_others(tmp_path):
    lines = ["a,b,c", *(["1,,true"] * 300_000), "1.5,2,false"]  # more than a block
    (tmp_path / "late.csv").write_text("\n".join(lines))
    (site,) = read(tmp_path / "late.csv")
    np.testing.assert_array_equal(site.rows[-1], [1.5, 2.0, 0.0])
    assert np.isnan(site.rows[0, 1])


def test_european_files(tmp_path):
    from fedspca.data import TextOptions

    (tmp_path / "eu.csv").write_bytes("größe;höhe\n1,5;2\n3,25;4\n".encode("latin-1"))
    options = TextOptions(encoding="latin-1", decimal=",")
    table = open_table(tmp_path / "eu.csv", options)
    features = choose(table.where, table.columns, Columns())
    (site,) = read_sites(tmp_path / "eu.csv", features, Columns(), name="eu", options=options)
    assert [feature.name for feature in features] == ["größe", "höhe"]
    np.testing.assert_array_equal(site.rows, [[1.5, 2], [3.25, 4]])


@pytest.mark.parametrize(
    ("encoding", "told"),
    [("utf-8", None), ("utf-8-sig", None), ("cp1252", "letters in cp1252"), ("utf-16", "letters in utf-16")],
)
def test_letters_and_decimal_commas_are_found_and_said(tmp_path, encoding, told):
    path = tmp_path / "a.csv"
    path.write_bytes('"größe";"x y"\r\n1,5;2\r\n-2,25;3\r\n;4\r\n'.encode(encoding))
    table = open_table(path)
    assert [column.name for column in table.columns] == ["größe", "x y"]
    (block,) = table.blocks(["größe", "x y"], [])
    assert np.array_equal(block.numbers, [[1.5, 2.0], [-2.25, 3.0], [np.nan, 4.0]], equal_nan=True)
    (said,) = how_read(path)
    assert "decimal commas (--decimal)" in said
    assert told is None or told in said
    assert how_read(path, TextOptions(encoding=encoding, decimal=",")) == ()


def test_commas_between_values_are_no_decimal_signs(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,5\n2,6\n")
    (block,) = open_table(path).blocks(["a", "b"], [])
    assert block.numbers.tolist() == [[1.0, 5.0], [2.0, 6.0]]
    path.write_text("a\tb\n1.5\t1,234\n")  # thousands, perhaps: points decide
    assert [column.kind for column in open_table(path).columns] == ["number", "text"]
