import gzip

import numpy as np
import pandas as pd
import pytest

from data.test_packages import write_xlsx
from fedspca.data import Columns, sites_from
from fedspca.data.cells import place_of, wrong_cells
from fedspca.data.formats import TextOptions, open_table
from fedspca.site import InvalidData

NUMBERS = [f"{j / 8}" for j in range(20)]


def lines_with(wrong, at=11):
    values = [*NUMBERS]
    values[at] = wrong
    return ["n,x", *(f"{j},{value}" for j, value in enumerate(values))]


@pytest.mark.parametrize("wrong", ["<0.5", "n/a?", ".", "1_000"])
def test_the_cell_to_correct_is_named_with_its_line(tmp_path, wrong):
    path = tmp_path / "lod.csv"
    path.write_text("\n".join(lines_with(wrong)))
    with pytest.raises(InvalidData) as caught:
        sites_from(path)
    assert str(caught.value) == (
        f"{path}: column 'x': 19 of 20 values are numbers; the first that is not is '{wrong}' in line 13. Correct it, "
        "or leave the cell empty."
    )


def test_a_column_of_texts_is_not_one_with_a_wrong_cell(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,sex,batch\n" + "1,F,<1\n2,M,2\n3,F,3\n4,M,4\n")
    with pytest.raises(InvalidData) as caught:
        sites_from(path)
    assert "column 'batch': 3 of 4 values are numbers; the first that is not is '<1' in line 2." in str(caught.value)
    assert "these columns do not hold numbers: 'sex' (text)." in str(caught.value)
    with pytest.raises(InvalidData, match="'batch': 3 of 4 values"):
        sites_from(path, Columns(exclude=("sex",), rename={"batch": "amount"}))


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("packed", [False, True])
def test_lines_are_those_of_the_file(tmp_path, ending, encoding, packed):
    """Blank lines are lines and no rows; a value in quotes may have several lines, as may a name."""
    lines = ["sep=;", '"the', 'n";x;ä', "1;2;a", "", '2;3;"b', "", 'c"', "3;1;é", "4;<1;d", "5;2;e"]
    content = ending.join(lines).encode(encoding)
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    table = open_table(path)
    assert [place_of(table, row) for row in range(1, 6)] == [f"line {line}" for line in (4, 6, 9, 10, 11)]
    cell = wrong_cells(table, ["x"])["x"]
    assert (cell.values, cell.numbers, cell.first, cell.row) == (5, 4, "<1", 4)


def test_decimal_commas_are_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(line.replace(",", ";").replace(".", ",") for line in lines_with("<0.5")))
    with pytest.raises(InvalidData, match="19 of 20 values are numbers; the first that is not is '<0,5' in line 13"):
        sites_from(path)
    path.write_text("\n".join(line.replace(",", ";", 1) for line in lines_with("1,5")))
    with pytest.raises(InvalidData, match=r"is '1,5' in line 13. If the comma is a decimal sign, pass --decimal ','"):
        sites_from(path, options=TextOptions(decimal="."))


@pytest.mark.parametrize(("given", "value", "sign"), [(",", "1.5", "point"), (".", "1,5", "comma")])
def test_a_decimal_sign_that_no_value_has_is_named_once(tmp_path, given, value, sign):
    path = tmp_path / "a.csv"
    path.write_text(f"a;b\n{value};2\n{value};3\n".replace("2", value))
    with pytest.raises(InvalidData) as caught:
        sites_from(path, options=TextOptions(decimal=given))
    assert f"'a', 'b' cannot be read as numbers: --decimal is {given!r}, and values such as {value!r} have" in str(
        caught.value
    )
    assert str(caught.value).count(f"a decimal {sign}") == 1
    path.write_text("a;day;sex\n1,5;31.12;M\n2,5;1.12;F\n")  # a sign that some values have is not doubted
    with pytest.raises(InvalidData, match=r"these columns do not hold numbers: 'day' \(text\), 'sex' \(text\)"):
        sites_from(path, options=TextOptions(decimal=","))


def test_a_wrong_cell_far_down_is_named_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr("fedspca.data.text.BLOCK_BYTES", 1 << 10)
    path = tmp_path / "a.csv"
    path.write_text("n,x\n" + "1,2.5\n" * 9000 + "1,<0.5\n")
    with pytest.raises(
        InvalidData, match=r"9,000 of 9,001 values are numbers; the first that is not is '<0.5' in line 9002"
    ):
        sites_from(path)


def test_sheets_and_other_tables_name_the_row(tmp_path):
    path = tmp_path / "a.xlsx"
    write_xlsx(path, {"lab": [["x"], [1.0], [None], [2.0], ["low"], [3.0]]})
    with pytest.raises(InvalidData, match=r"3 of 4 values are numbers; .* is 'low' in row 5 of the sheet 'lab'"):
        sites_from(path)
    table = pd.DataFrame({"x": ["1", "2", "<0.5"]})
    with pytest.raises(InvalidData, match=r"2 of 3 values are numbers; .* is '<0.5' in row 3"):
        sites_from(table)
    assert place_of(open_table(pd.DataFrame({"x": np.ones(3)})), 2) == "row 2"
