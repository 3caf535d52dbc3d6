"""Rows of a query: from DuckDB and from SQLite, in pieces, with what is wrong in words and no password anywhere."""

import sqlite3

import duckdb
import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.data import TextOptions, open_table
from fedspca.data.sql import row_count
from fedspca.data.urls import safe_url, source_name
from fedspca.fit import FitSettings, fit_files
from fedspca.site import InvalidData
from helpers.commands import fedspca
from helpers.study_files import NAMES, frame, make_rows, parts_of

QUERY = "SELECT * FROM patients WHERE f0 > -1000"


@pytest.fixture
def databases(tmp_path):
    """The same sixty rows in DuckDB, SQLite and CSV, with a column of text and a value that is missing."""
    table = frame(make_rows(60)).assign(ward="a")
    table.loc[3, "f2"] = np.nan
    table.to_csv(tmp_path / "rows.csv", index=False)
    with duckdb.connect(tmp_path / "rows.duckdb") as connection:
        connection.register("rows", table)
        connection.execute("CREATE TABLE patients AS SELECT * FROM rows")
    connection = sqlite3.connect(tmp_path / "rows.sqlite")
    table.to_sql("patients", connection, index=False)
    connection.close()
    return tmp_path


def urls(home):
    return [f"duckdb:///{home}/rows.duckdb", f"sqlite:///{home}/rows.sqlite"]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("step", [7, 60])
def test_a_query_gives_the_rows_of_the_table(databases, number, step, monkeypatch):
    monkeypatch.setattr("fedspca.data.sql.rows_a_block", lambda _: step)
    table = open_table(urls(databases)[number], TextOptions(query=QUERY))
    assert [column.name for column in table.columns] == [*NAMES, "ward"]
    assert [column.kind for column in table.columns] == ["number"] * 8 + ["text"]
    blocks = list(table.blocks(NAMES, ("ward",)))
    expected = np.vstack([block.numbers for block in open_table(databases / "rows.csv").blocks(NAMES, ())])
    assert np.array_equal(np.vstack([block.numbers for block in blocks]), expected, equal_nan=True)
    assert len(blocks) == -(-60 // step)
    assert blocks[0].texts["ward"][0] == "a"


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_fit_to_a_query_is_that_to_the_file(databases, in_memory, monkeypatch):
    if not in_memory:
        monkeypatch.setattr("fedspca.data.prepare.IN_MEMORY", 1)
    given = {"nonzero": 3, "path": False, "exclude": ("ward",), "cache": str(databases / "cache")}
    models = [fit_files(FitSettings(files=(url,), query=QUERY, **given)) for url in urls(databases)]
    fresh = fit_files(FitSettings(files=(str(databases / "rows.csv"),), **given))
    for model in models:
        assert np.abs(model.components - fresh.components).max() < 1e-8
    assert models[0].facts["site_names"] == ["rows"]
    assert models[0].facts["study"]["files"] == ["rows.duckdb"]
    assert row_count(urls(databases)[0], QUERY) == 60


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_databases_of_several_sites_give_what_the_pooled_table_gives(tmp_path, kind, k):
    whole = frame(make_rows(60))
    for j, part in enumerate(parts_of(whole, k)):
        path = tmp_path / f"site{j}.{kind}"
        if kind == "duckdb":
            with duckdb.connect(path) as connection:
                connection.register("rows", part)
                connection.execute("CREATE TABLE patients AS SELECT * FROM rows")
        else:
            connection = sqlite3.connect(path)
            part.to_sql("patients", connection, index=False)
            connection.close()
    files = tuple(f"{kind}:///{tmp_path}/site{j}.{kind}" for j in range(k))
    model = fit_files(FitSettings(files=files, query=QUERY, nonzero=3, path=False))
    pooled = ExactSPCA(2, n_nonzero=3, scale=True).fit(whole)
    assert np.abs(model.components - pooled.components_).max() < 1e-8


def test_duckdb_reads_files_by_a_query_of_its_own(databases):
    query = f"SELECT f0, f1::DECIMAL(9, 3) AS f1, SUM(f2::INT) OVER () AS total FROM '{databases}/rows.csv'"
    table = open_table("duckdb://", TextOptions(query=query))
    assert [column.kind for column in table.columns] == ["number"] * 3
    assert next(table.blocks(["f0", "f1", "total"], ())).numbers.shape == (60, 3)


def test_the_command_line_takes_a_query(databases, monkeypatch):
    monkeypatch.chdir(databases)
    ran = fedspca("fit", *urls(databases)[:1], "--query", QUERY, "--exclude", "ward", "--no-path", "-o", "m", "--json")
    assert ran.code == 0, ran.err
    ran = fedspca("fit", *urls(databases)[:1], "-o", "n")
    assert (ran.code, "say which rows are meant, with --query" in ran.err) == (2, True)


def test_what_a_database_refuses_is_one_sentence(databases):
    for url in urls(databases):
        with pytest.raises(InvalidData, match="does not answer the query") as caught:
            open_table(url, TextOptions(query="SELECT * FROM nothing"))
        assert "nothing" in str(caught.value)
    with pytest.raises(InvalidData, match="does not answer the query"):
        open_table(f"duckdb:///{databases}/not-there.db", TextOptions(query=QUERY))
    with pytest.raises(InvalidData, match="needs psycopg"):
        open_table("postgresql+psycopg://reader@localhost/registry", TextOptions(query=QUERY))
    with pytest.raises(InvalidData, match="does not answer the query"):
        open_table("what://ever", TextOptions(query=QUERY))
    connection = sqlite3.connect(databases / "rows.sqlite")
    connection.execute("UPDATE patients SET f1 = 'text' WHERE rowid = 50")
    connection.commit()
    connection.close()
    table = open_table(urls(databases)[1], TextOptions(query=QUERY))
    assert table.columns[1].kind == "other"
    late = open_table(urls(databases)[1], TextOptions(query="SELECT * FROM patients ORDER BY rowid"))
    with pytest.raises(InvalidData, match="column 'f1' must hold numbers, and holds 'text'"):
        list(late.blocks(["f1"], ()))


def test_a_duckdb_file_is_only_read(databases):
    with pytest.raises(InvalidData, match="does not answer the query"):
        open_table(urls(databases)[0], TextOptions(query="DROP TABLE patients"))
    assert row_count(urls(databases)[0], QUERY) == 60


def test_a_password_is_taken_from_the_environment_only(databases, monkeypatch):
    with pytest.raises(InvalidData, match="a password in the URL would stay in files") as caught:
        open_table("postgresql://reader:hunter2@host/registry", TextOptions(query=QUERY))
    assert "hunter2" not in str(caught.value)
    url = "postgresql+psycopg://reader:${SQL_SECRET}@host/registry?sslmode=require"
    with pytest.raises(InvalidData, match="the variable SQL_SECRET of the environment is not set"):
        open_table(url, TextOptions(query=QUERY))
    monkeypatch.setenv("SQL_SECRET", "hunter2")
    with pytest.raises(InvalidData) as caught:  # there is no such driver here
        open_table(url, TextOptions(query=QUERY))
    assert "hunter2" not in str(caught.value)
    assert safe_url("x://a:b@h/d?password=c") == "x://a@h/d"
    assert [source_name(each) for each in (url, "duckdb://", "a/b.csv")] == ["registry", "duckdb", "b.csv"]
