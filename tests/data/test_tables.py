import numpy as np
import pandas as pd
import polars as pl
import pytest

from helpers.reading import read
from helpers.study_files import NAMES, make_rows


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_dataframes_are_tables(make):
    rows = make_rows()
    (site,) = read(make(dict(zip(NAMES, rows.T, strict=True))))
    np.testing.assert_array_equal(site.rows, rows)
