from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedspca import ExactSPCA
from fedspca.data import open_table
from fedspca.data.formats import BEGINNINGS
from fedspca.fit import FitSettings, fit_files
from fedspca.site import InvalidData
from helpers.reading import dense, read
from helpers.study_files import FORMATS, NAMES, frame, make_rows, parts_of, write, write_zarr


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_rows_in_memory_and_mapped(tmp_path, kind, in_memory):
    rows = make_rows()
    path = write(tmp_path / f"north.{kind}", rows)
    (site,) = read(path, cache=tmp_path / "cache", in_memory=in_memory)
    assert site.site == "north"
    np.testing.assert_array_equal(dense(site.rows), rows)


def test_single_precision_stays_single(tmp_path):
    frame(make_rows().astype(np.float32)).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")[0].rows.dtype == np.float32


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("kind", [*FORMATS, "tsv", "semicolon.csv"])
def test_every_format_gives_the_loadings_of_the_pooled_table(tmp_path, kind, k):
    """The files of other programs, genotypes and databases have the same test beside their readers."""
    rows = make_rows(70)
    files = tuple(str(tmp_path / f"site{j}.{kind}") for j in range(k))
    for path, part in zip(map(Path, files), parts_of(rows, k), strict=True):
        if kind == "tsv":
            frame(part).to_csv(path, index=False, sep="\t")
        elif kind == "semicolon.csv":
            frame(part).to_csv(path, index=False, sep=";", decimal=",", encoding="utf-16")
        else:
            write(path, part)
    given = {"rename": {f: (f"x{j}",) for j, f in enumerate(NAMES)}} if kind in ("npy", "npz") else {}
    model = fit_files(FitSettings(files=files, nonzero=3, path=False, **given))
    whole = ExactSPCA(2, n_nonzero=3, scale=True).fit(frame(rows))
    assert np.abs(model.components - whole.components_).max() < 1e-8
    assert list(model.feature_names) == NAMES


@pytest.mark.parametrize("ending", [".csv", ".sav", ".xlsx", ".zst"])
@pytest.mark.parametrize("mark", BEGINNINGS)
def test_a_file_that_is_plainly_of_another_kind_is_named(tmp_path, mark, ending):
    path = tmp_path / f"a.csv{ending}".replace(".csv.csv", ".csv")
    path.write_bytes(mark + b"x" * 100)
    what, endings = BEGINNINGS[mark]
    if ending in endings:
        return
    with pytest.raises(InvalidData, match=f"it is {what}, although its name ends in") as told:
        open_table(path)
    assert all(known in str(told.value) for known in endings)


def test_columns_of_anndata_in_zarr_stand_beside_the_rows(tmp_path):
    beside = {"ward": pd.Categorical(["a", "b", None]), "age": pd.array([40, None, 60], dtype="Int64")}
    beside["ward"] = beside["ward"].rename_categories(pd.Index(["a", "b"], dtype=object))
    write_zarr(tmp_path / "a.zarr", make_rows(3), **beside)
    (block,) = open_table(tmp_path / "a.zarr").blocks(NAMES[2:4], ("ward", "age"))
    assert np.array_equal(block.numbers.toarray(), make_rows(3)[:, 2:4])
    assert (list(block.texts["ward"]), list(block.texts["age"])) == (["a", "b", None], ["40", None, "60"])


def test_a_folder_that_is_no_anndata_is_named(tmp_path):
    (tmp_path / "a.zarr").mkdir()
    with pytest.raises(InvalidData, match="it is not AnnData in Zarr"):
        open_table(tmp_path / "a.zarr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidData, match="it is a directory"):
        open_table(tmp_path / "folder")
