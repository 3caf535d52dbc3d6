"""Rows that a query of a database returns, in blocks: DuckDB by itself, other databases by SQLAlchemy.

A source is a URL such as ``duckdb:///rows.db`` or ``postgresql://reader@host/registry``, and the query says which rows.
A password is never part of it: ``${NAME}`` in a URL stands for a variable of the environment, which no file keeps.
"""

import datetime
import decimal
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote_plus

import numpy as np

from fedspca.data.arrow import BatchTable, readable
from fedspca.data.columns import Column, Kind, shown
from fedspca.data.tables import Block, Table, as_texts, rows_a_block
from fedspca.data.urls import SECRET, safe_url
from fedspca.site.errors import InvalidData

LOOKED_AT = 1000  # rows from which the kind of a column is detected
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def query_table(url: str, query: str | None) -> Table:
    """Open the rows of a query as a table; they are not read yet.

    Parameters
    ----------
    url : str
        The database.
    query : str or None
        What is asked of it, in SQL.
    """
    where = safe_url(url)
    if (secret := SECRET.search(url)) and not VARIABLE.fullmatch(secret[2]):
        raise InvalidData(
            f"{where}: a password in the URL would stay in files and in the history of the shell. Write ${{NAME}} in "
            "its place, and set the variable NAME of the environment."
        )
    if not query:
        raise InvalidData(f"{where}: say which rows are meant, with --query 'SELECT … FROM …'.")
    query = query.strip().rstrip(";")
    if url.startswith("duckdb://"):
        return _duckdb_table(where, url.removeprefix("duckdb://").removeprefix("/"), query)
    return SqlTable(where, url, query)


def row_count(url: str, query: str) -> int:
    """Return how many rows a query has, before memory is taken for them."""
    counted = f"SELECT COUNT(*) AS n FROM ({query.strip().rstrip(';')}) AS counted"
    (block,) = (block for block in query_table(url, counted).blocks(["n"], ()) if block.numbers.shape[0])
    return int(block.numbers[0, 0])


def _duckdb_table(where: str, path: str, query: str) -> BatchTable:
    """Return the rows of a query to a DuckDB file, or to files that it names, as record batches."""
    import duckdb

    @contextmanager
    def asked(text: str) -> Iterator[Any]:
        try:
            with duckdb.connect(path or ":memory:", read_only=bool(path)) as connection:
                yield connection.sql(text)
        except duckdb.Error as error:
            raise InvalidData(_refused(where, error)) from None

    with asked(f"SELECT * FROM ({query}) AS rows LIMIT 0") as found, readable(where):
        schema = found.to_arrow_reader(1).schema

    def batches(names: list[str], _texts: Sequence[str]) -> Iterator[Any]:
        with asked(query) as found:
            for batch in found.to_arrow_reader(rows_a_block(len(schema))):
                yield batch.select(names)

    return BatchTable(where, schema, batches)


class SqlTable:
    """The rows of a query to a database that SQLAlchemy reaches."""

    def __init__(self, where: str, url: str, query: str) -> None:
        self.where, self._url, self._query = where, url, query
        with self._rows() as rows:
            names = list(map(str, rows.keys()))
            first = rows.fetchmany(LOOKED_AT)
        columns = list(zip(*first, strict=True)) if first else [()] * len(names)
        self.columns = tuple(Column(n, kind := _kind(c), kind) for n, c in zip(names, columns, strict=True))

    @contextmanager
    def _rows(self) -> Iterator[Any]:
        """Ask, with the password from the environment; say in words what is wrong."""
        import sqlalchemy
        from sqlalchemy.exc import SQLAlchemyError

        engine = None
        try:
            engine = sqlalchemy.create_engine(_with_secrets(self.where, self._url))
            with engine.connect().execution_options(stream_results=True) as connection:
                yield connection.execute(sqlalchemy.text(self._query))
        except SQLAlchemyError as error:
            raise InvalidData(_refused(self.where, getattr(error, "orig", None) or error)) from None
        except ModuleNotFoundError as error:
            raise InvalidData(
                f"{self.where}: SQLAlchemy needs {error.name} for this kind of database. Install it with pip."
            ) from None
        finally:
            if engine is not None:
                engine.dispose()

    def blocks(self, numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Block]:
        """Go through the rows, with these columns as numbers and those as text."""
        at = {column.name: j for j, column in enumerate(self.columns)}
        with self._rows() as rows:
            while part := rows.fetchmany(rows_a_block(len(self.columns))):
                table = np.empty((len(part), len(numbers)))
                for j, name in enumerate(numbers):
                    table[:, j] = [self._number(name, row[at[name]]) for row in part]
                yield Block(table, {name: as_texts([row[at[name]] for row in part]) for name in texts})

    def _number(self, name: str, value: Any) -> float:
        if value is None:
            return np.nan
        if isinstance(value, bool | int | float | decimal.Decimal):
            return float(value)
        raise InvalidData(f"{self.where}: column {shown(name)} must hold numbers, and holds {shown(str(value))}.")


def _kind(values: Sequence[Any]) -> Kind:
    """Say what a column holds. One without any value yet may be a number."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, bool | int | float | decimal.Decimal) for value in present):
        return "number"
    if all(isinstance(value, datetime.date | datetime.datetime | datetime.time) for value in present):
        return "date"
    return "text" if all(isinstance(value, str) for value in present) else "other"


def _with_secrets(where: str, url: str) -> str:
    """Return a URL with the variables of the environment that it names."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise InvalidData(f"{where}: the variable {found[1]} of the environment is not set.")
        return quote_plus(os.environ[found[1]])

    return VARIABLE.sub(value, url)


def _refused(where: str, error: Any) -> str:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return f"{where}: the database does not answer the query. ({SECRET.sub(r'://', first)}.)"
