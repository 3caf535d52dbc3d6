import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from fedspca import InvalidData, InvalidQuery, Query, Site
from helpers.asking import question


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.array([[1.0, np.nan], [2.0, 3.0]]), r"'north'.*'bmi'.*NaN.*row 1 "),
        (np.array([[1.0, 2.0], [np.inf, 3.0]]), r"'north'.*'age'.*inf.*row 2 "),
        (np.array([[1.0, 2.0], [1e200, 3.0]]), r"'age'.*too large"),
        (sp.csr_array(np.array([[0.0, 0.0], [0.0, np.nan]])), r"'bmi'.*NaN.*row 2 "),
        (np.array([["1", "2"]]), "real numbers"),
        (np.array([[1j, 2]]), "complex"),
        (np.zeros((0, 2)), "no rows"),
        (np.zeros(2), "1 dimension"),
        ([[1.0, 2.0], [1.0]], "rectangular"),
    ],
)
def test_bad_rows_are_refused_by_name(rows, words):
    with pytest.raises(InvalidData, match=words):
        Site("north", rows, feature_names=["age", "bmi"])


def test_no_columns_is_refused():
    with pytest.raises(InvalidData, match="no columns"):
        Site("north", np.zeros((2, 0)))


def test_feature_names_must_fit_and_differ():
    with pytest.raises(InvalidData, match=r"3 feature names.*2 columns"):
        Site("north", np.zeros((2, 2)), feature_names=["a", "b", "c"])
    with pytest.raises(InvalidData, match="more than once: a"):
        Site("north", np.zeros((2, 2)), feature_names=["a", "a"])


def test_data_stay_what_they_are():
    dense = np.ones((3, 2), dtype=np.float32)
    sparse = sp.csr_array(dense)
    assert Site("a", dense)._data.rows is dense
    assert Site("b", sparse)._data.rows.dtype == np.float32
    assert np.shares_memory(Site("b", sparse)._data.rows.data, sparse.data)
    assert Site("c", pd.DataFrame({"age": [1, 2]})).feature_names == ("age",)
    assert Site("d", [[1, 2], [3, 4]])._data.rows.dtype == np.float64


def test_entries_stored_in_parts_count_once():
    whole = sp.csr_array(np.array([[1.0, 0, 2], [0, 3, 0]]))
    parts = sp.csr_matrix((np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), whole.indptr * 2), whole.shape)
    query = Query("deviations", {"mean": np.ones(3)})
    assert np.allclose(Site("a", parts).answer(query)["squares"], Site("b", whole).answer(query)["squares"])
    assert parts.nnz == 6  # the caller's is left alone


def test_a_site_that_lost_its_state_says_so():
    rows = np.random.default_rng(0).standard_normal((5, 3))
    site = Site("north", rows)
    with pytest.raises(InvalidQuery, match=r"'north'.*round 4.*expects nothing.*begin again"):
        site.answer(question(4))
    site.answer(question(0))
    site.answer(question(1))
    with pytest.raises(InvalidQuery, match="expects round 2"):
        site.answer(question(1))
    with pytest.raises(InvalidQuery, match="expects round 2 with 1 loading"):
        site.answer(question(2, z=np.zeros((3, 2))))
    site.answer(question(0))  # beginning anew is always possible


def test_random_starts_differ_between_sites_and_not_between_runs():
    rows = np.random.default_rng(0).standard_normal((5, 3))
    first, again, other = (Site(name, rows).answer(question(0))["consensus"] for name in ("a", "a", "b"))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
