import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fedspca import ExactSPCA
from fedspca.model import SparsePCAModel
from fedspca.model.named_rows import in_order, names_of
from helpers.study_files import frame, make_rows


@pytest.fixture
def model(fitted):
    return SparsePCAModel.from_estimator(fitted)


def test_columns_are_found_by_name_in_every_use_of_a_model(model):
    rows = frame(make_rows())
    mixed = rows[rows.columns[::-1]].assign(other="text")
    plain = rows.to_numpy()
    assert np.array_equal(model.transform(mixed), model.transform(plain))
    assert np.array_equal(model.standardised(mixed), model.standardised(plain))
    assert np.array_equal(model.reconstruction_errors(mixed), model.reconstruction_errors(plain))
    assert np.array_equal(model.residuals(mixed), model.residuals(plain))
    assert not np.allclose(model.transform(plain[:, ::-1]), model.transform(plain))  # an array goes by order


@pytest.mark.parametrize("kind", [pl.from_pandas, pa.Table.from_pandas])
def test_tables_of_other_packages_have_names_too(model, kind):
    rows = frame(make_rows())
    assert np.allclose(model.transform(kind(rows[rows.columns[::-1]])), model.transform(rows), rtol=1e-12)


def test_a_missing_column_is_named(model):
    rows = frame(make_rows())
    with pytest.raises(ValueError, match="The rows lack 'f3', and the model needs it"):
        model.transform(rows.drop(columns="f3"))
    with pytest.raises(ValueError, match="lack 'f0', 'f3', and the model needs them"):
        model.transform(rows.rename(columns={"f0": "F0", "f3": "F3"}))
    with pytest.raises(ValueError, match="More than one column of the rows has the name 'f0'"):
        model.transform(pd.concat([rows, rows[["f0"]]], axis=1))


def test_a_model_without_names_takes_a_table_by_order():
    rows = make_rows()
    nameless = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=3, scale=True).fit(rows))
    assert np.array_equal(nameless.transform(frame(rows)), nameless.transform(rows))
    generated = pd.DataFrame(rows, columns=[f"x{j}" for j in range(rows.shape[1])])
    assert np.array_equal(nameless.transform(generated[generated.columns[::-1]]), nameless.transform(rows))


def test_a_feature_may_have_the_name_of_an_attribute():
    rows = make_rows()
    named = pd.DataFrame(rows, columns=["column_names", "columns", *(f"f{j}" for j in range(2, rows.shape[1]))])
    model = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=3).fit(named))
    assert np.array_equal(model.transform(named[named.columns[::-1]]), model.transform(named))


def test_numbers_for_names_are_no_names(model):
    rows = make_rows()
    assert names_of(pd.DataFrame(rows)) is None
    assert names_of(rows) is None
    assert np.array_equal(model.transform(pd.DataFrame(rows)), model.transform(rows))
    assert in_order(rows, model.feature_names) is rows
