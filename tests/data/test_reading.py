import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from fedspca.data import Columns, choose, open_table, read_sites
from fedspca.site.errors import InvalidData
from helpers.study_files import FORMATS, NAMES, frame, make_rows, write, write_h5ad


def read(source, columns=None, **settings):
    columns = columns or Columns()
    table = open_table(source)
    features = choose(table.where, table.columns, columns)
    return read_sites(source, features, columns, name="north", **settings)


def dense(rows):
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_rows_in_memory_and_mapped(tmp_path, kind, in_memory):
    rows = make_rows()
    path = write(tmp_path / f"north.{kind}", rows)
    (site,) = read(path, cache=tmp_path / "cache", in_memory=in_memory)
    assert site.site == "north"
    np.testing.assert_array_equal(dense(site.rows), rows)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_dataframes_are_tables(make):
    rows = make_rows()
    (site,) = read(make(dict(zip(NAMES, rows.T, strict=True))))
    np.testing.assert_array_equal(site.rows, rows)


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


def test_the_prepared_copy_is_used_again_until_the_file_changes(tmp_path):
    path, cache = tmp_path / "north.csv", tmp_path / "cache"
    for seed, copies in ((0, 1), (0, 1), (1, 2)):
        write(path, make_rows(seed=seed))
        (site,) = read(path, cache=cache, in_memory=0)
        np.testing.assert_array_equal(site.rows, make_rows(seed=seed))
        assert len(list(cache.iterdir())) == copies
    assert all(copy.stat().st_mode & 0o077 == 0 for copy in cache.iterdir())  # the rows are for the owner alone


def test_single_precision_stays_single(tmp_path):
    frame(make_rows().astype(np.float32)).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")[0].rows.dtype == np.float32


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


def test_agreed_categories_are_encoded_and_others_refused():
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "sex": ["F", "M", None]})
    columns = Columns(categories={"sex": ("F", "M", "X")})
    (site,) = read(table, columns)
    np.testing.assert_array_equal(site.rows, [[1, 1, 0, 0], [2, 0, 1, 0], [3, np.nan, np.nan, np.nan]])
    with pytest.raises(InvalidData, match=r"'sex' holds 'M'.*agreed"):
        read(table, Columns(categories={"sex": ("F",)}))


def test_columns_are_for_what_was_said():
    table = frame(make_rows()).assign(who="p", what="q")
    with pytest.raises(InvalidData, match=r"'who' \(text\), 'what' \(text\).*--exclude"):
        read(table)
    (site,) = read(table, Columns(features=("f3", "f1")))
    np.testing.assert_array_equal(site.rows, make_rows()[:, [3, 1]])
    assert read(table, Columns(id="who", label="what", exclude=("f0",)))[0].rows.shape == (90, 7)
    with pytest.raises(InvalidData, match="no column 'f9'"):
        read(table, Columns(exclude=("f9", "who", "what")))
    with pytest.raises(InvalidData, match="cannot be a feature and be kept out"):
        read(table, Columns(features=("f1",), id="f1"))
    with pytest.raises(InvalidData, match="more than the 3 that are taken"):
        read(table, Columns(exclude=("who", "what"), max_features=3))
