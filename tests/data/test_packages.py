import datetime
import zipfile

import numpy as np
import pandas as pd
import pyreadr
import pyreadstat
import pytest
import xlwt

from fedspca import ExactSPCA
from fedspca.data.formats import OTHERS, TextOptions, how_read, open_table
from fedspca.fit import FitSettings, fit_files
from fedspca.site import InvalidData
from helpers.study_files import NAMES, frame, make_rows

LABELS = {"sex": {1: "female", 2: "male"}}
WORKBOOK = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>',
}
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
REL = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def write_xlsx(path, sheets):
    """Write a workbook as its specification gives it: numbers, and texts in place."""

    def cell(value):
        if value is None:
            return "<c/>"
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return f"<c><v>{value!r}</v></c>"

    parts = dict(WORKBOOK)
    listed = "".join(f'<sheet name="{name}" sheetId="{j}" r:id="r{j}"/>' for j, name in enumerate(sheets, 1))
    parts["xl/workbook.xml"] = f'<workbook xmlns="{MAIN}" xmlns:r="{REL}"><sheets>{listed}</sheets></workbook>'
    where = "".join(
        f'<Relationship Id="r{j}" Type="{REL}/worksheet" Target="worksheets/sheet{j}.xml"/>'
        for j in range(1, len(sheets) + 1)
    )
    packages = "http://schemas.openxmlformats.org/package/2006/relationships"
    parts["xl/_rels/workbook.xml.rels"] = f'<Relationships xmlns="{packages}">{where}</Relationships>'
    for j, rows in enumerate(sheets.values(), 1):
        lines = "".join(f"<row>{''.join(cell(value) for value in row)}</row>" for row in rows)
        parts[f"xl/worksheets/sheet{j}.xml"] = f'<worksheet xmlns="{MAIN}"><sheetData>{lines}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')


def as_rows(table):
    return [list(table.columns), *(list(row) for row in table.astype(object).itertuples(index=False))]


def write_xls(path, rows):
    book = xlwt.Workbook()
    sheet = book.add_sheet("baseline")
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            if value is not None and value == value:
                sheet.write(i, j, value)
    book.save(str(path))


WRITERS = {
    "sav": lambda table, path: pyreadstat.write_sav(table, str(path), variable_value_labels=LABELS),
    "dta": lambda table, path: pyreadstat.write_dta(table, str(path), variable_value_labels=LABELS),
    "xpt": lambda table, path: pyreadstat.write_xport(table, str(path)),
    "rds": lambda table, path: pyreadr.write_rds(str(path), table),
    "xlsx": lambda table, path: write_xlsx(path, {"baseline": as_rows(table)}),
    "zsav": lambda table, path: pyreadstat.write_sav(table, str(path), compress=True, variable_value_labels=LABELS),
    "ods": lambda table, path: table.to_excel(path, engine="odf", index=False),
    "xls": lambda table, path: write_xls(path, as_rows(table.where(table.notna(), None))),
}


def table_with_sex():
    table = frame(make_rows(60))
    table["sex"] = 1.0 + np.random.default_rng(0).integers(0, 2, 60)
    table.loc[3, "f2"] = np.nan
    return table


@pytest.mark.parametrize("step", [7, 10])  # 10 ends with the file, and 7 does not
@pytest.mark.parametrize("kind", ["sav", "dta", "xpt"])
def test_files_are_read_in_pieces_to_the_end(kind, step, tmp_path, monkeypatch):
    table = table_with_sex()
    WRITERS[kind](table, tmp_path / f"a.{kind}")
    monkeypatch.setattr("fedspca.data.packages.rows_a_block", lambda _: step)
    monkeypatch.setattr("fedspca.data.packages.LOOKED_AT", 5)
    blocks = list(open_table(tmp_path / f"a.{kind}").blocks(NAMES, []))
    assert np.array_equal(np.vstack([block.numbers for block in blocks]), table[NAMES], equal_nan=True)
    assert kind == "xpt" or len(blocks) > 5


@pytest.mark.parametrize("kind", WRITERS)
def test_files_of_other_programs_give_what_the_table_gives(kind, tmp_path):
    table = table_with_sex()
    if kind == "xlsx":
        table = table.where(table.notna(), None)
    for name, part in (("a", table[:30]), ("b", table[30:])):
        WRITERS[kind](part.reset_index(drop=True), tmp_path / f"{name}.{kind}")
    files = tuple(str(tmp_path / f"{name}.{kind}") for name in "ab")
    labelled = kind in ("sav", "zsav", "dta")
    model = fit_files(FitSettings(files=files, nonzero=3, path=False, adjust=("sex",)))
    levels = model.facts["preparation"]["levels"]
    assert levels == ({"sex": ["female", "male"]} if labelled else {})
    whole = table_with_sex()
    here = ExactSPCA(2, n_nonzero=3, scale=True, max_missing=0.2).fit(whole[NAMES], covariates=whole[["sex"]])
    assert np.allclose(model.components, here.components_, atol=1e-8)
    assert np.allclose(model.missing_share, here.missing_share_)


def test_labels_are_categories_and_codes_are_numbers(tmp_path):
    WRITERS["sav"](table_with_sex(), tmp_path / "a.sav")
    table = open_table(tmp_path / "a.sav")
    (block,) = table.blocks(["sex"], ["sex"])
    assert [{1.0: "female", 2.0: "male"}[code] for code in block.numbers[:, 0]] == list(block.texts["sex"])


def test_dates_and_texts_keep_their_kind(tmp_path):
    table = pd.DataFrame({"x": [1.0, 2.0], "when": [datetime.datetime(2020, 1, 1)] * 2, "who": ["p", ""]})
    pyreadstat.write_sav(table, str(tmp_path / "a.sav"))
    opened = open_table(tmp_path / "a.sav")
    assert [column.kind for column in opened.columns] == ["number", "date", "text"]
    (block,) = opened.blocks(["x"], ["who"])
    assert list(block.texts["who"]) == ["p", None]


def test_a_sheet_is_chosen_by_name_and_others_are_told(tmp_path):
    rows = [["a", "b"], [1.0, "x"], [2.5, None], [None, None]]
    write_xlsx(tmp_path / "w.xlsx", {"first": rows, "second": [["c"], [7]]})
    table = open_table(tmp_path / "w.xlsx")
    (block,) = table.blocks(["a"], ["b"])
    assert block.numbers[:, 0].tolist() == [1.0, 2.5]
    assert list(block.texts["b"]) == ["x", None]
    assert "several sheets; 'first' is read, and not 'second'" in how_read(tmp_path / "w.xlsx")[0]
    second = open_table(tmp_path / "w.xlsx", TextOptions(sheet="second"))
    assert [column.name for column in second.columns] == ["c"]
    with pytest.raises(InvalidData, match="no sheet 'third'; there are 'first', 'second'"):
        open_table(tmp_path / "w.xlsx", TextOptions(sheet="third"))
    write_xlsx(tmp_path / "e.xlsx", {"first": [["a", None], [1.0, 2.0]]})
    with pytest.raises(InvalidData, match="column 2 of the sheet has no name"):
        open_table(tmp_path / "e.xlsx")


@pytest.mark.parametrize("kind", ["xlsx", "ods", "sav", "dta", "sas7bdat", "xpt", "rds"])
def test_a_file_that_is_something_else_is_named(kind, tmp_path):
    path = tmp_path / f"a.{kind}"
    path.write_bytes(b"this is no such file" * 50)
    with pytest.raises(InvalidData, match=f"a.{kind}: it cannot be read"):
        list(open_table(path).blocks([], []))


def test_kinds_that_nothing_reads_say_what_to_do(tmp_path):
    for ending in OTHERS:
        (tmp_path / f"a{ending}").write_bytes(b"x")
        with pytest.raises(InvalidData, match="files of this kind are not read"):
            open_table(tmp_path / f"a{ending}")
    assert "plink2" in OTHERS[".pgen"]


def test_a_reader_that_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch):
    (tmp_path / "a.sav").write_bytes(b"x")
    monkeypatch.setitem(__import__("sys").modules, "pyreadstat", None)
    with pytest.raises(InvalidData, match=r"fedspca\[packages\]"):
        open_table(tmp_path / "a.sav")
