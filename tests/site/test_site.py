import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from fedspca import InvalidData, InvalidQuery, Policy, Query, Site
from fedspca.site import QUERIES


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.array([[1.0, np.nan], [2.0, 3.0]]), r"'north'.*'bmi'.*NaN.*row 0"),
        (np.array([[1.0, 2.0], [np.inf, 3.0]]), r"'north'.*'age'.*inf.*row 1"),
        (np.array([[1.0, 2.0], [1e200, 3.0]]), r"'age'.*too large"),
        (sp.csr_array(np.array([[0.0, 0.0], [0.0, np.nan]])), r"'bmi'.*NaN.*row 1"),
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


def question(iteration, z=None):
    scalars = {"iteration": iteration, "rho": 10.0, "seed": 1, "deflation": "orthogonal"}
    arrays = {"z": np.zeros((3, 1)) if z is None else z}
    if iteration == 0:
        arrays |= {"mean": np.zeros(3), "scale": np.ones(3), "removed": np.zeros((3, 0))}
    return Query("faspca_step", arrays, scalars)


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


def test_round_zero_must_bring_the_frame():
    broken = Query("faspca_step", {"z": np.zeros((3, 1))}, question(0).scalars)
    with pytest.raises(InvalidQuery, match="must bring mean, removed, scale"):
        Site("north", np.eye(3)).answer(broken)


@pytest.mark.parametrize(
    ("scalars", "words"),
    [
        ({"rho": -1.0}, "rho must be positive"),
        ({"rho": float("nan")}, "rho must be positive"),
        ({"iteration": 1.5}, "iteration must be of type int"),
        ({"iteration": True}, "iteration must be of type int"),
        ({"iteration": -1}, "must not be negative"),
        ({"deflation": "both"}, "one of"),
    ],
)
def test_scalars_are_checked(scalars, words):
    query = question(0)
    with pytest.raises(InvalidQuery, match=words):
        Site("north", np.eye(3)).answer(Query(query.name, query.arrays, {**query.scalars, **scalars}))


def test_random_starts_differ_between_sites_and_not_between_runs():
    rows = np.random.default_rng(0).standard_normal((5, 3))
    first, again, other = (Site(name, rows).answer(question(0))["consensus"] for name in ("a", "a", "b"))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)


def test_policy_limits_the_directions_asked_at_once():
    site = Site("north", np.eye(3), policy=Policy(max_components=1))
    frame = {"mean": np.zeros(3), "scale": np.ones(3), "removed": np.zeros((3, 0))}
    with pytest.raises(Exception, match="asks about 2 directions and the policy allows at most 1"):
        site.answer(Query("gram_product", {**frame, "directions": np.zeros((3, 2))}, {"precision": "float64"}))


@pytest.mark.parametrize("limit", ["min_rows", "max_rounds", "max_components"])
def test_a_policy_that_allows_nothing_is_a_mistake(limit):
    with pytest.raises(ValueError, match=f"{limit}.*at least 1. Got 0"):
        Policy(**{limit: 0})


def test_every_question_says_what_it_releases():
    assert all(question.releases for question in QUERIES.values())


def test_policies_are_checked_when_they_are_made():
    with pytest.raises(ValueError, match="set of names"):
        Policy(allowed_queries="moments")
    with pytest.raises(TypeError, match="must be a Policy"):
        Site("north", np.eye(3), policy={"min_rows": 3})


def test_a_site_that_restarts_answers_with_the_same_bits():
    rows = np.random.default_rng(0).standard_normal((500, 200))
    frame = {"mean": np.zeros(200), "scale": np.ones(200), "removed": np.zeros((200, 0))}
    queries = [
        Query("gram_sketch", frame, {"seed": 1, "columns": 40, "precision": "float64"}),
        Query("gram_product", {**frame, "directions": np.eye(200, 3)}, {"precision": "float64"}),
    ]
    lasting = Site("a", rows)
    for query in [*queries, *queries]:
        assert np.array_equal(lasting.answer(query)["product"], Site("a", rows).answer(query)["product"])
