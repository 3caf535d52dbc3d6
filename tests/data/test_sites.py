import warnings

import numpy as np
import pandas as pd
import pytest

from fedspca.data import Columns, open_table
from fedspca.site.errors import InvalidData
from helpers.reading import dense, read
from helpers.study_files import frame, make_rows, write_h5ad, write_old_h5ad


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_a_site_column_makes_sites(tmp_path, in_memory):
    rows, owners = make_rows(), np.array(["b/..", "a,\u202e", "<c>"])[np.arange(90) % 3]
    frame(rows).assign(hospital=owners).to_parquet(tmp_path / "all.parquet")
    sites = read(tmp_path / "all.parquet", Columns(site="hospital"), cache=tmp_path / "cache", in_memory=in_memory)
    assert {site.site for site in sites} == set(owners)
    for site in sites:
        np.testing.assert_array_equal(site.rows, rows[owners == site.site])


def test_site_columns_of_h5ad_come_from_obs(tmp_path):
    rows, owners = make_rows(), ["n", "s", "s"] * 30
    write_h5ad(tmp_path / "all.h5ad", rows, owners=owners)
    sites = read(tmp_path / "all.h5ad", Columns(site="hospital"))
    assert [site.site for site in sites] == ["n", "s"]
    np.testing.assert_array_equal(dense(sites[1].rows), rows[np.array(owners) == "s"])
    assert read(tmp_path / "all.h5ad")[0].rows.shape == (90, 8)  # what obs holds is no feature unless it is named


def test_whole_numbers_that_name_sites_stay_whole(tmp_path):
    frame(make_rows()).assign(ward=np.arange(90) % 2).to_csv(tmp_path / "all.csv", index=False)
    assert [site.site for site in read(tmp_path / "all.csv", Columns(site="ward"))] == ["0", "1"]


def test_files_of_older_anndata_are_read_or_refused_with_the_true_reason(tmp_path):
    rows, owners = make_rows(), np.array(["north", "south", "south"] * 30)
    write_old_h5ad(tmp_path / "seven.h5ad", rows, owners, version="0.7")
    assert "__categories" not in [column.name for column in open_table(tmp_path / "seven.h5ad").columns]
    sites = read(tmp_path / "seven.h5ad", Columns(site="hospital"))
    assert {site.site: len(site.rows) for site in sites} == {"north": 30, "south": 60}
    write_old_h5ad(tmp_path / "six.h5ad", rows, owners, version="0.6")
    with pytest.raises(InvalidData, match=r"older than 0\.7.*read_h5ad"):
        read(tmp_path / "six.h5ad")
    anndata = pytest.importorskip("anndata")
    # as the message says; anndata 0.12 writes no texts of pandas 3
    with warnings.catch_warnings(action="ignore"), pd.option_context("future.infer_string", False):
        anndata.read_h5ad(tmp_path / "six.h5ad").write_h5ad(tmp_path / "new.h5ad")
    assert len(read(tmp_path / "new.h5ad", Columns(site="hospital"))) == 2


def test_what_an_h5ad_file_lacks_is_named(tmp_path):
    import h5py

    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file["X"] = np.ones((2, 2))
    with pytest.raises(InvalidData, match="lacks obs and var"):
        open_table(tmp_path / "a.h5ad")


def test_columns_of_anndata_with_missing_values_are_read(tmp_path):
    anndata, rows = pytest.importorskip("anndata"), make_rows(6)
    owners = pd.array([1, 2, None, 1, 2, 1], dtype="Int64")
    with warnings.catch_warnings(action="ignore"), pd.option_context("future.infer_string", False):
        made = anndata.AnnData(rows, obs=pd.DataFrame({"ward": owners}, index=[f"r{i}" for i in range(6)]))
        made.write_h5ad(tmp_path / "a.h5ad")
    table = open_table(tmp_path / "a.h5ad")
    (block,) = table.blocks([column.name for column in table.columns if column.kind == "number"], ["ward"])
    assert list(block.texts["ward"]) == ["1", "2", None, "1", "2", "1"]
