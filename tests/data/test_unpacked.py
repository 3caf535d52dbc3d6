"""Files of other programs that would take far more memory than they have bytes."""

import bz2
import gzip
import lzma
import zipfile

import pytest

from fedspca.data import unpacked
from fedspca.data.formats import open_table
from fedspca.data.unpacked import check_declared, check_packed, check_workbook
from fedspca.site.errors import InvalidData


def workbook(path, sheet, **more):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
        for name, content in more.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    "cells",
    [
        '<c r="A1"/><c r="XFD1048576"/>',
        "<c r='A1'/><c r = 'xfd1048576'/>",
        '<row r="1"><c r="XFD1"/></row><row r="1048576"><c/></row>',
        " " * ((1 << 20) - 12) + '<c r="XFD1048576"/>',
    ],
    ids=["far", "quotes", "row", "across"],
)
def test_a_cell_far_from_the_table_is_refused(tmp_path, cells):
    with pytest.raises(InvalidData, match="1048576 rows and 16384 columns"):
        check_workbook(workbook(tmp_path / "far.xlsx", cells))


def test_a_table_is_a_table(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacked, "EMPTY_CELLS", 100)
    cells = "".join(f'<c r="{letter}{row}"/>' for row in range(1, 200) for letter in "ABC")
    check_workbook(workbook(tmp_path / "table.xlsx", cells))
    monkeypatch.setattr(unpacked, "EMPTY_RATIO", 2)
    with pytest.raises(InvalidData, match="199 rows and 26 columns"):
        check_workbook(workbook(tmp_path / "wide.xlsx", cells + '<c r="Z1"/>'))


def test_a_workbook_that_swells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacked, "UNPACKED", 1 << 20)
    with pytest.raises(InvalidData, match="unpacked, it is more than 100 times"):
        check_workbook(workbook(tmp_path / "bomb.xlsx", "", texts=b"0" * (1 << 22)))


def test_what_is_no_archive_is_left_to_its_reader_and_a_damaged_one_is_told(tmp_path):
    path = tmp_path / "old.xls"
    path.write_bytes(b"\xd0\xcf\x11\xe0")
    check_workbook(path)
    path = workbook(tmp_path / "damaged.xlsx", "0123456789" * 10)
    path.write_bytes(path.read_bytes().replace(b"PK\x03\x04", b"PK\x03\x05", 1))
    with pytest.raises(InvalidData, match="it may be damaged"):
        check_workbook(path)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_file_of_r_that_swells_is_refused(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(unpacked, "UNPACKED", 1 << 20)
    path = tmp_path / "bomb.rds"
    path.write_bytes(pack(b"0" * (1 << 22)))
    with pytest.raises(InvalidData, match="unpacked, it is more than 100 times"):
        check_packed(path)
    path.write_bytes(pack(b"0" * (1 << 19)))
    check_packed(path)
    path.write_bytes(pack(b"0" * (1 << 19))[:-9])
    with pytest.raises(InvalidData, match="cannot be unpacked"):
        check_packed(path)
    path.write_bytes(b"RDX")
    check_packed(path)


EMPTY = "<table:table-cell/>"
CELL = '<table:table-cell office:value-type="float" office:value="1"{}/>'
ROW = "<table:table-row{}>{}</table:table-row>"


def opendocument(path, *rows):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "content.xml", f'<table:table table:name="a"><table:table-column/>{"".join(rows)}</table:table>'
        )
    return path


def repeated(what, n):
    return f' table:number-{what}-repeated="{n}"'


@pytest.mark.parametrize(
    "rows",
    [
        (ROW.format(repeated("rows", 1048576), CELL.format(repeated("columns", 16384))),),
        (
            ROW.format("", CELL.format(repeated("columns", 16384))),
            ROW.format(repeated("rows", 1048575), CELL.format("")),
        ),
        (
            ROW.format(repeated("rows", 1048575), "<table:table-cell/>"),
            ROW.format("", "<table:table-cell/>" * 16383 + CELL),
        ),
        (" " * ((1 << 20) - 99), ROW.format(repeated("rows", 1048576), CELL.format(repeated("columns", 16384)))),
    ],
    ids=["both", "rows", "far", "across"],
)
def test_cells_that_are_repeated_to_a_huge_table_are_refused(tmp_path, rows):
    with pytest.raises(InvalidData, match="1048576 rows and 16384 columns, and nearly all cells are empty or repeated"):
        open_table(opendocument(tmp_path / "a.ods", *rows))


def test_empty_cells_at_the_end_are_no_table(tmp_path):
    """Every program writes them: the sheet to its last row and column."""
    tail = ROW.format(repeated("rows", 1048000), f"<table:table-cell{repeated('columns', 16384)}/>")
    body = [ROW.format("", CELL.format("") * 3 + f"<table:table-cell{repeated('columns', 16381)}/>")] * 50
    check_workbook(opendocument(tmp_path / "a.ods", *body, tail))


def test_a_declared_size_beyond_the_file_is_refused(tmp_path, monkeypatch):
    import pandas as pd
    import pyreadstat

    path = tmp_path / "a.dta"
    pyreadstat.write_dta(pd.DataFrame({"x": [1.0, 2.0]}), str(path))
    open_table(path)
    monkeypatch.setattr(unpacked, "UNPACKED", 1)
    monkeypatch.setattr(unpacked, "RATIO", 0)
    with pytest.raises(InvalidData, match="it declares 2 rows and 1 columns"):
        open_table(path)
    monkeypatch.undo()
    with pytest.raises(InvalidData, match="it declares 1000000000 rows and 50 columns, more than 100 times"):
        check_declared(path, 1_000_000_000, 50)
    check_declared(path, None, 50)
