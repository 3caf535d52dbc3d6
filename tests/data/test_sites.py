import numpy as np
import pytest

from fedspca.data import Columns
from helpers.reading import dense, read
from helpers.study_files import frame, make_rows, write_h5ad


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
