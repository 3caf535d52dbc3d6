import numpy as np

from fedspca import Query, Site


def test_values_at_an_edge_count_as_not_above_it_and_missing_ones_not_at_all():
    rows = np.array([[1.0, 0.0], [1.0, np.nan], [2.0, 3.0]])
    edges = np.array([[0.5, 0.0], [1.0, 2.0], [2.0, 9.0]])
    site = Site("a", rows, allow_missing=True)
    below = site.answer(Query("counts_below", {"edges": edges}))["below"]
    assert np.array_equal(below, [[0, 1], [2, 1], [3, 2]])
