import gzip
import io

import numpy as np
import pyarrow as pa
import pytest

from fedspca.data import Columns, TextOptions, choose, open_table, read_sites, text
from fedspca.data.formats import how_read
from fedspca.site import InvalidData
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
    assert "semicolons between values (--separator)" in said
    assert "decimal commas (--decimal)" in said
    assert told is None or told in said
    assert how_read(path, TextOptions(encoding=encoding, separator=";", decimal=",")) == ()


@pytest.mark.parametrize("ending", [";", ";;"])
def test_separators_at_the_ends_of_lines_make_no_feature(tmp_path, ending):
    path = tmp_path / "a.csv"
    path.write_text("".join(f"{line}{ending}\n" for line in ("a;b", "1;2", "3;4")))
    (site,) = read(path)
    np.testing.assert_array_equal(site.rows, [[1, 2], [3, 4]])
    assert "a separator at the end of each line makes a column without a name" in how_read(path)[-1]
    path.write_text("a;b;\n1;2;5\n3;4;6\n")  # values without a name are a column
    assert len(open_table(path).columns) == 3
    path.write_text("a;b;c\n1;2;\n3;4;\n")  # and a name without values is one as well
    assert len(open_table(path).columns) == 3


def test_commas_between_values_are_no_decimal_signs(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,5\n2,6\n")
    (block,) = open_table(path).blocks(["a", "b"], [])
    assert block.numbers.tolist() == [[1.0, 5.0], [2.0, 6.0]]
    path.write_text("a\tb\n1.5\t1,234\n")  # thousands, perhaps: points decide
    assert [column.kind for column in open_table(path).columns] == ["number", "text"]


UGLY = {  # how people's files look: all hold the columns "a" and "b", and 1.5, 2 and 3.25, 4 in them
    "a line for Excel": b"sep=;\r\na;b\r\n1,5;2\r\n3,25;4\r\n",
    "UTF-16 without a mark": "a;b\n1,5;2\n3,25;4\n".encode("utf-16-le"),
    "UTF-16, the other way round": "a;b\n1,5;2\n3,25;4\n".encode("utf-16-be"),
    "line ends of old Macs": b"a,b\r1.5,2\r3.25,4\r",
    "empty lines above": b"\n\r\na,b\n1.5,2\n3.25,4\n",
    "bars": b"a|b\n1.5|2\n3.25|4\n",
    "spaces": b"a b\n1.5 2\n3.25 4\n",
    "decimal commas in quotes": b'a,b\n"1,5",2\n"3,25",4\n',
    "a mark and quotes": b'\xef\xbb\xbf"a"\t"b"\n"1.5"\t"2"\n3.25\t4\n',
}


@pytest.mark.parametrize("ending", ["csv", "txt"])
@pytest.mark.parametrize("look", UGLY)
def test_ugly_files_hold_what_they_hold(tmp_path, look, ending):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(UGLY[look])
    table = open_table(path)
    assert [(column.name, column.kind) for column in table.columns] == [("a", "number"), ("b", "number")]
    (block,) = table.blocks(["a", "b"], [])
    assert block.numbers.tolist() == [[1.5, 2.0], [3.25, 4.0]]


def test_names_in_quotes_may_hold_signs_and_new_lines(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'"weight, wet\n(kg)";"a;b"\n1,5;2\n')
    assert [column.name for column in open_table(path).columns] == ["weight, wet\n(kg)", "a;b"]
    path.write_bytes(b'height ("),b\n1.5,2\n')  # a quote without an end is left to the reader
    assert [column.name for column in open_table(path).columns] == ['height (")', "b"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "a|b\n1|2\n", "a.csv: read with bars between values (--separator)"),
        ("a.csv", "a\tb\n1\t2\n", "a.csv: read with tabs between values (--separator)"),
        ("a.tsv", "a,b\n1,2\n", "a.tsv: read with commas between values (--separator)"),
        ("a.csv", "a,b\n1,2\n", None),
        ("a.tsv", "a\tb\n1\t2\n", None),
        ("a.txt", "a\tb\n1\t2\n", None),
    ],
)
def test_an_unusual_separator_is_said(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    assert how_read(tmp_path / name) == (() if said is None else (said,))


def test_commas_for_thousands_are_no_decimal_signs(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n"1,234",2\n"12,345",3\n')
    assert [column.kind for column in open_table(tmp_path / "a.csv").columns] == ["text", "number"]


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("# made by a device\na,b\n1,2\n", "lines stand above the names of the columns, delete them"),
        ('"a","b"\n"1",2,3\n', "row.names = FALSE"),
        ("a    b\n1    2\n", "several spaces stand between values"),
    ],
)
def test_a_table_that_cannot_be_made_out_says_what_to_do(tmp_path, text, advice):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InvalidData, match=advice):
        open_table(tmp_path / "a.txt")


@pytest.mark.parametrize(
    "options",
    [{"separator": ";;"}, {"decimal": ""}, {"separator": '"'}, {"separator": "x"}, {"decimal": "x"}, {"decimal": ";"}],
)
def test_signs_are_single(tmp_path, options):
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    with pytest.raises(InvalidData, match=f"--{next(iter(options))} is one sign"):
        open_table(tmp_path / "a.csv", TextOptions(**options))


def test_the_types_of_a_large_table_are_found_from_its_beginning(tmp_path, monkeypatch):
    path, taken = tmp_path / "a.csv", []

    class Counted(io.FileIO):
        def read(self, size=-1):
            taken.append(super().read(size))
            return taken[-1]

    path.write_text("x,y\n" + "1.5,2\n" * 200_000)
    monkeypatch.setattr("fedspca.data.text._stream", Counted)
    monkeypatch.setattr("fedspca.data.text._start", lambda path: path.read_bytes()[:1000])
    monkeypatch.setattr("fedspca.data.text.BLOCK_BYTES", 1 << 14)
    table = open_table(path)
    assert sum(map(len, taken)) <= 2 << 14
    monkeypatch.undo()
    assert sum(len(block.numbers) for block in table.blocks(["x", "y"], ())) == 200_000


@pytest.mark.parametrize(
    ("name", "encoding"), [("rows.csv", "utf-8"), ("rows.csv.gz", "utf-8"), ("rows.csv", "cp1252")]
)
def test_threads_of_arrow_have_nothing_of_python_once_types_are_found(tmp_path, monkeypatch, name, encoding):
    """They may let go of it only when the program ends; giving back something of Python then ends it by an abort."""
    opened, open_csv = [], text.pc.open_csv

    def seen(stream, read, *options):
        opened.append((stream.read_buffer(), read.encoding))
        stream.seek(0)
        return open_csv(stream, read, *options)

    monkeypatch.setattr(text.pc, "open_csv", seen)
    path = tmp_path / name
    with gzip.open(path, "wb") if name.endswith("gz") else path.open("wb") as file:
        file.write("ä,b\n1,x\n2,y\n".encode(encoding))
    before = pa.total_allocated_bytes()
    assert [column.name for column in open_table(path).columns] == ["ä", "b"]
    ((buffer, read_as),) = opened
    assert pa.total_allocated_bytes() > before, "the block is in memory of Python"
    assert buffer.to_pybytes().decode("utf-8").startswith("ä,b")
    assert read_as == "utf-8", "letters are found by codecs of Python"
