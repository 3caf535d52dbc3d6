"""Rows that come with names, in the order of a model's features."""

from collections.abc import Sequence
from typing import Any

from fedspca.data.columns import listed
from fedspca.site.site import default_names


def names_of(X: Any) -> list[str] | None:
    """Return the names of a table's columns; None if it has none, or numbers for names, as scikit-learn takes it."""
    # of a pandas frame, an attribute may be a column of that name
    columns = X.column_names if hasattr(type(X), "column_names") else getattr(X, "columns", None)
    if columns is None or not any(isinstance(name, str) for name in columns):
        return None
    return [str(name) for name in columns]


def in_order(X: Any, features: Sequence[str]) -> Any:
    """Return rows in the order of the features: columns are found by name where rows have names, else by order.

    A model of rows without names takes any table by order. Columns that the model does not know are left out.

    Parameters
    ----------
    X : DataFrame, Arrow table or array
        The rows.
    features : sequence of str
        The model's features.
    """
    names = names_of(X)
    if names is None:
        return X
    lacking = [name for name in features if name not in set(names)]
    if lacking and tuple(features) == default_names(len(features)):
        return X
    if lacking:
        raise ValueError(
            f"The rows lack {listed(lacking)}, and the model needs {'it' if len(lacking) == 1 else 'them'}. Columns "
            "are found by name; an array without names is taken in the order of the model's features."
        )
    if twice := [name for name in features if names.count(name) > 1]:
        raise ValueError(f"More than one column of the rows has the name {listed(twice)}. Give each its own name.")
    chosen = list(features)
    return X.select(chosen) if hasattr(type(X), "select") else X[chosen]
