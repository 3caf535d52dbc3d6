"""Files of other programs that would take far more memory than they have bytes."""

import bz2
import gzip
import lzma
import zipfile

import pytest

from fedspca.data import unpacked
from fedspca.data.unpacked import check_packed, check_workbook
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
