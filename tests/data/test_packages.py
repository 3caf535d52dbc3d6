import datetime
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadr
import pyreadstat
import pytest
import xlwt

from fedspca import ExactSPCA
from fedspca.data import Columns
from fedspca.data.formats import OTHERS, TextOptions, how_read, open_table
from fedspca.fit import FitSettings, fit_files
from fedspca.site import InvalidData
from helpers.reading import read
from helpers.sas import write_catalog, write_sas
from helpers.study_files import NAMES, frame, make_rows, parts_of

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


def write_sas_with_labels(table, path):
    """SAS keeps the labels of values in a catalog beside the table."""
    write_sas(table, path, formats={"sex": "SEXE"})
    write_catalog(path.with_suffix(".sas7bcat"), {"SEXE": LABELS["sex"]})


WRITERS = {
    "sas7bdat": write_sas_with_labels,
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
@pytest.mark.parametrize("kind", ["sav", "dta", "sas7bdat", "xpt"])
def test_files_are_read_in_pieces_to_the_end(kind, step, tmp_path, monkeypatch):
    table = table_with_sex()
    WRITERS[kind](table, tmp_path / f"a.{kind}")
    monkeypatch.setattr("fedspca.data.packages.rows_a_block", lambda _: step)
    monkeypatch.setattr("fedspca.data.packages.LOOKED_AT", 5)
    blocks = list(open_table(tmp_path / f"a.{kind}").blocks(NAMES, []))
    assert np.array_equal(np.vstack([block.numbers for block in blocks]), table[NAMES], equal_nan=True)
    assert kind == "xpt" or len(blocks) > 5


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("kind", WRITERS)
def test_files_of_other_programs_give_what_the_table_gives(kind, k, tmp_path):
    table = table_with_sex()
    if kind == "xlsx":
        table = table.where(table.notna(), None)
    files = tuple(str(tmp_path / f"site{j}.{kind}") for j in range(k))
    for file, part in zip(files, parts_of(table, k), strict=True):
        WRITERS[kind](part, Path(file))
    labelled = kind in ("sav", "zsav", "dta", "sas7bdat")
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


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Files that SAS itself wrote, from the tests of pandas; tests/samples/README.md says which."""
    folder = tmp_path_factory.mktemp("sas")
    with tarfile.open(Path(__file__).parents[1] / "samples/sas7bdat.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


# 32 bits, 64 bits, and compressed in both ways of SAS, the last with the largest byte first
@pytest.mark.parametrize("name", ["airline", "test16", "test2", "test14"])
def test_files_of_sas_hold_what_pandas_reads(name, samples):
    path = samples / f"{name}.sas7bdat"
    other = pd.read_sas(path, encoding="utf-8")
    table = open_table(path, TextOptions(encoding="utf-8"))  # the files say latin-1, and are not
    kinds = {column.name: column.kind for column in table.columns}
    assert list(kinds) == list(other.columns)
    numbers, texts, dates = ([name for name in kinds if kinds[name] == kind] for kind in ("number", "text", "date"))
    assert [len(numbers), len(texts), len(dates)] == ([6, 0, 0] if name == "airline" else [73, 25, 2])
    blocks = list(table.blocks(numbers, [*texts, *dates]))
    assert np.array_equal(np.vstack([block.numbers for block in blocks]), other[numbers], equal_nan=True)
    for column in texts:
        expected = [None if pd.isna(value) else value for value in other[column]]
        assert [value for block in blocks for value in block.texts[column]] == expected
    for column in dates:
        found = pd.to_datetime(pd.Series([value for block in blocks for value in block.texts[column]]))
        assert (found.fillna(pd.Timestamp(0)) == other[column].fillna(pd.Timestamp(0))).all()


def test_dates_of_sas_are_no_features(samples):
    table = open_table(samples / "datetime.sas7bdat")
    assert {column.kind for column in table.columns} == {"date"}
    (block,) = table.blocks([], ["Date1", "DateTime"])
    assert list(block.texts["Date1"][1:3]) == ["1960-01-01", "2016-02-29"]
    assert list(block.texts["DateTime"][1:3]) == ["1960-01-01 00:00:00", "2016-02-29 23:59:59"]
    with pytest.raises(InvalidData, match="'Date1' \\(dates or times\\)"):
        fit_files(FitSettings(files=(str(samples / "datetime.sas7bdat"),)))


@pytest.mark.parametrize("form", ["MONYY7", "WORDDATE18", "YYQ6", "MMYYS7", "YEAR4", "E8601DZ"])
def test_numbers_that_sas_shows_as_dates_are_dates(form, tmp_path):
    """Its reader gives numbers of days for these; as features they would be measurements."""
    write_sas(
        pd.DataFrame({"x": [1.0, 2.0], "when": [1.0, 9.0]}),
        tmp_path / "a.sas7bdat",
        formats={"when": form, "x": "BEST12"},
    )
    assert [column.kind for column in open_table(tmp_path / "a.sas7bdat").columns] == ["number", "date"]


def test_letters_of_sas_are_those_that_the_file_says_unless_told_otherwise(samples):
    (as_said,) = open_table(samples / "test16.sas7bdat").blocks([], ["Column2"])
    (told,) = open_table(samples / "test16.sas7bdat", TextOptions(encoding="utf-8")).blocks([], ["Column2"])
    assert told.texts["Column2"][0] == "高雄市"
    assert as_said.texts["Column2"][0] == "高雄市".encode().decode("latin-1")
    with pytest.raises(InvalidData, match=r"letters cannot be read.*--encoding, for example utf-8"):
        open_table(samples / "test16.sas7bdat", TextOptions(encoding="ascii"))


def test_missing_values_of_sas_are_missing(tmp_path):
    """SAS has 28 of them: ., ._ and .A to .Z."""
    table = pd.DataFrame({"x": [1.5, np.nan, ".A", ".Z", -2.0], "who": ["Zoë", "", None, "x", "y"]}, dtype=object)
    write_sas(table, tmp_path / "a.sas7bdat", labels={"x": "Größe"})
    (block,) = open_table(tmp_path / "a.sas7bdat").blocks(["x"], ["who"])
    other = pd.read_sas(tmp_path / "a.sas7bdat", encoding="infer")
    assert np.array_equal(block.numbers[:, 0], [1.5, np.nan, np.nan, np.nan, -2.0], equal_nan=True)
    assert np.array_equal(block.numbers[:, 0], other["x"], equal_nan=True)
    assert list(block.texts["who"]) == ["Zoë", None, None, "x", "y"]


@pytest.mark.parametrize("called", ["a.sas7bcat", "formats.sas7bcat"])
def test_the_catalog_beside_a_file_of_sas_has_its_labels(tmp_path, called):
    write_sas(pd.DataFrame({"sex": [1.0, 2.0, 3.0]}), tmp_path / "a.sas7bdat", formats={"sex": "SEXE"})
    path = tmp_path / "a.sas7bdat"
    assert list(next(iter(open_table(path).blocks([], ["sex"]))).texts["sex"]) == ["1", "2", "3"]
    write_catalog(tmp_path / called, {"SEXE": {1.0: "weiblich", 2.0: "männlich"}})
    (block,) = open_table(path).blocks(["sex"], ["sex"])
    assert list(block.texts["sex"]) == ["weiblich", "männlich", "3"]  # a value without a label is its code
    assert block.numbers[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert how_read(path) == (f"a.sas7bdat: value labels are those of {called}",)
    (tmp_path / called).write_bytes(b"this is no catalog" * 100)
    with pytest.raises(InvalidData, match=f"{called}: it cannot be read"):
        open_table(path)


def test_another_catalog_makes_another_prepared_copy(tmp_path):
    write_sas(
        pd.DataFrame({"x": range(9), "sex": [1, 2, 1] * 3}, dtype=float),
        tmp_path / "a.sas7bdat",
        formats={"sex": "SEXE"},
    )
    columns, found = Columns(covariates=("sex",)), []
    for names in (("f", "m"), ("female", "male")):
        write_catalog(tmp_path / "a.sas7bcat", {"SEXE": dict(zip((1.0, 2.0), names, strict=True))})
        (site,) = read(tmp_path / "a.sas7bdat", columns, cache=tmp_path / "cache", in_memory=0)
        found.append(list(site.beside["sex"][:3]))
    assert found == [["f", "m", "f"], ["female", "male", "female"]]


@pytest.mark.parametrize("kind", ["sav", "dta", "sas7bdat"])
def test_columns_that_begin_without_values_keep_their_kind(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("fedspca.data.packages.LOOKED_AT", 2)
    when = [None, None, datetime.date(2020, 1, 1)]
    table = pd.DataFrame({"x": [None, None, 2.0], "who": ["", "", "p"], "when": when})
    path = tmp_path / f"a.{kind}"
    if kind == "sas7bdat":
        write_sas(table.assign(when=[None, None, 21915.0]), path, formats={"when": "DATE9"})
    else:
        WRITERS[kind](table.assign(sex=1.0), path)
    opened = open_table(path)
    assert [column.kind for column in opened.columns[:2]] == ["number", "text"]
    with pytest.raises(InvalidData, match="column 'when' begins without values and then holds dates"):
        list(opened.blocks(["x", "when"], []))


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
    with pytest.raises(InvalidData, match=r"column 2 of the sheet has no name.*lines stand above"):
        open_table(tmp_path / "e.xlsx")


def test_sheets_hold_missing_values_and_empty_columns(tmp_path):
    rows = [["a", None, "b"], [1.0, None, "NA"], ["#N/A", None, 2.5], ["NaN", None, " "]]
    write_xlsx(tmp_path / "a.xlsx", {"first": rows})
    table = open_table(tmp_path / "a.xlsx")
    assert [(column.name, column.kind) for column in table.columns] == [("a", "number"), ("b", "number")]
    (block,) = table.blocks(["a", "b"], [])
    expected = [[1.0, np.nan], [np.nan, 2.5], [np.nan, np.nan]]
    assert np.array_equal(block.numbers, expected, equal_nan=True)


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
