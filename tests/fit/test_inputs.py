import pytest

from fedspca.fit.inputs import open_inputs, site_names
from fedspca.fit.settings import FitSettings
from fedspca.site.errors import InvalidData
from helpers.study_files import frame, make_rows


def test_names_of_sites_tell_files_apart():
    assert site_names(["x/a.csv.gz", "b.parquet"]) == ["a", "b"]
    assert site_names(["a.csv", "a.parquet"]) == ["a.csv", "a.parquet"]
    assert site_names(["x/a.csv", "y/a.csv"]) == ["x/a.csv", "y/a.csv"]
    with pytest.raises(ValueError, match="more than once"):
        site_names(["a.csv", "a.csv"])


def test_a_mistake_that_files_share_is_told_once(tmp_path):
    for name in "abc":
        words = "sex" if name != "c" else "town"
        (tmp_path / f"{name}.csv").write_text(f"f0;f1;{words}\n1,5;2;M\n2,5;1;F\n")
    files = [str(tmp_path / f"{name}.csv") for name in "abc"]
    with pytest.raises(InvalidData) as caught:
        open_inputs(FitSettings(files=tuple(files)))
    assert f"{files[0]}, {files[1]}: these columns do not hold numbers: 'sex' (text)." in str(caught.value)
    assert f"{files[2]}: these columns do not hold numbers: 'town' (text)." in str(caught.value)
    told = open_inputs(FitSettings(files=tuple(files), exclude=("sex", "town"))).told
    read = "read with semicolons between values (--separator) and decimal commas (--decimal)"
    assert told == (f"a.csv, b.csv, c.csv: {read}",)


def test_a_rename_that_renames_nothing_is_said(tmp_path):
    rows = frame(make_rows())
    rows.to_csv(tmp_path / "a.csv", index=False)
    rows.rename(columns={"f1": "F1"}).to_csv(tmp_path / "b.csv", index=False)
    files = (str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    told = open_inputs(FitSettings(files=files, rename={"f1": ("F1",)})).told
    assert not any("--rename" in each for each in told)
    told = open_inputs(FitSettings(files=files, rename={"f1": ("F1", "g1"), "a": ("b",)})).told
    assert any(each.startswith("--rename f1=g1, a=b: no file has a feature") for each in told)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"query": "SELECT f0 FROM rows"}, "--query asks a database, and files are given"),
        ({"sheet": "A"}, "--sheet names a sheet of a workbook, and no file given is a workbook"),
        ({"levels": {"Sex": ("F", "M")}, "adjust": ("sex",)}, "--levels has 'Sex', which --adjust and --protect do"),
    ],
)
def test_what_would_be_ignored_is_refused(given, told, tmp_path):
    frame(make_rows()).assign(sex=["F", "M"] * 45).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(InvalidData, match=told):
        open_inputs(FitSettings(files=(str(tmp_path / "a.csv"),), exclude=("sex",) * ("adjust" not in given), **given))
