import numpy as np

from fedspca import Query, Site


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
