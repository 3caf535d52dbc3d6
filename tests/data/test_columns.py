import numpy as np
import pandas as pd
import pytest

from fedspca.data import Columns
from fedspca.site.errors import InvalidData
from helpers.reading import read
from helpers.study_files import frame, make_rows


def test_agreed_categories_are_encoded_and_others_refused():
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "sex": ["F", "M", None]})
    columns = Columns(categories={"sex": ("F", "M", "X")})
    (site,) = read(table, columns)
    # F, the first, is the reference level: the others determine it
    np.testing.assert_array_equal(site.rows, [[1, 0, 0], [2, 1, 0], [3, np.nan, np.nan]])
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
