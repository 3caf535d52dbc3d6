"""What every federation must hold, whatever carries the messages."""

from abc import ABC, abstractmethod

import numpy as np
import pytest

from fedspca import FASPCA, Policy, Query, SchemaMismatch, Site, SiteRefusal
from fedspca.linalg.operators import Frame
from fedspca.site import InvalidQuery
from fedspca.site.answers.products import random_directions
from fedspca.solvers.asking import frame_arrays

D = 6
EXACTLY = {"precision": "float64"}


def make_sites(sizes=(5, 3, 9, 1), d=D, seed=0, **policies):
    rng = np.random.default_rng(seed)
    names = [f"clinic-{k}" for k in range(len(sizes))]
    return [
        Site(name, rng.standard_normal((n, d)), policy=policies.get(name.replace("-", "_")))
        for name, n in zip(names, sizes, strict=True)
    ]


def orthonormal(r=2, seed=4):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((D, r)))[0]


def pooled(sites):
    return np.vstack([site._data.rows for site in sites])


class FederationContract(ABC):
    """Inherit it in a test class and implement :meth:`federate`."""

    exact = True  # whether sums have the bits of an ordinary sum in the order of the sites' names

    @abstractmethod
    def federate(self, sites): ...

    def frame(self, q=1):
        rng = np.random.default_rng(3)
        return Frame(rng.standard_normal(D), rng.uniform(0.5, 2, D), np.linalg.qr(rng.standard_normal((D, q)))[0])

    def test_it_knows_its_sites_and_features(self):
        federation = self.federate(make_sites())
        assert federation.n_sites == 4
        assert federation.feature_names == tuple(f"x{j}" for j in range(D))

    def test_moments_are_the_pooled_ones(self):
        sites = make_sites()
        answer = self.federate(sites).sum(Query("moments"))
        x = pooled(sites)
        assert answer.n_sites == 4
        assert answer.number("rows") == len(x)
        assert np.allclose(answer["counts"], len(x))
        assert np.allclose(answer["sums"], x.sum(axis=0), atol=1e-9)
        mean = x.mean(axis=0)
        squares = self.federate(sites).sum(Query("deviations", {"mean": mean}))["squares"]
        assert np.allclose(squares, ((x - mean) ** 2).sum(axis=0), atol=1e-9)

    def test_gram_products_are_the_pooled_ones(self):
        sites, frame = make_sites(), self.frame()
        q = orthonormal()
        a = (pooled(sites) - frame.mean) / frame.scale @ (np.eye(D) - frame.removed @ frame.removed.T)
        arrays = {**frame_arrays(frame), "directions": q}
        federation = self.federate(sites)
        assert np.allclose(federation.sum(Query("gram_product", arrays, EXACTLY))["product"], a.T @ (a @ q), atol=1e-9)
        captured = federation.sum(Query("captured_variance", arrays))["captured"]
        assert np.allclose(captured, (a @ q).T @ (a @ q), atol=1e-9)

    def test_directions_may_travel_as_a_seed_and_answers_in_single_precision(self):
        sites, frame = make_sites(), self.frame()
        arrays = frame_arrays(frame)
        federation = self.federate(sites)
        sketch = federation.sum(Query("gram_sketch", arrays, {"seed": 7, "columns": 3, **EXACTLY}))
        directions, factor = np.linalg.qr(random_directions(7, (D, 3)))  # a question's own directions are orthonormal
        whole = federation.sum(Query("gram_product", {**arrays, "directions": directions}, EXACTLY))
        assert np.allclose(sketch["product"], whole["product"] @ factor, atol=1e-9)
        assert sketch.bytes_down < whole.bytes_down
        rounded = federation.sum(Query("gram_product", {**arrays, "directions": directions}, {"precision": "float32"}))
        assert np.allclose(rounded["product"], whole["product"], rtol=1e-5, atol=1e-4)
        assert rounded["product"].dtype == np.float64
        with pytest.raises(InvalidQuery, match="9 directions of 6 features"):
            federation.sum(Query("gram_sketch", arrays, {"seed": 7, "columns": 9, **EXACTLY}))

    def test_curvature_is_near_the_largest_site_s(self):
        sites, frame = make_sites(), self.frame(q=0)
        parts = [(site._data.rows - frame.mean) / frame.scale for site in sites]
        total = self.federate(sites).sum(Query("curvature", frame_arrays(frame), {"reference": 10.0}))
        estimate = 10.0 * total.number("curvature") ** (1 / 16)
        largest = max(np.linalg.norm(part, 2) ** 2 for part in parts)
        assert 0.95 * largest <= estimate <= len(sites) ** (1 / 16) * 1.001 * largest

    def test_the_order_of_sites_does_not_matter(self):
        sites, frame = make_sites(), self.frame()
        arrays = {**frame_arrays(frame), "directions": orthonormal()}
        there = self.federate(make_sites()).sum(Query("gram_product", arrays, EXACTLY))["product"]
        back = self.federate(sites[::-1]).sum(Query("gram_product", arrays, EXACTLY))["product"]
        if self.exact:
            assert np.array_equal(there, back)
        assert np.allclose(there, back, atol=1e-9)

    def test_traffic_is_counted(self):
        frame = self.frame()
        arrays = {**frame_arrays(frame), "directions": np.eye(D, 2)}
        answer = self.federate(make_sites()).sum(Query("gram_product", arrays, EXACTLY))
        assert answer.bytes_up >= D * 2 * 8
        assert answer.bytes_down >= sum(array.nbytes for array in arrays.values())

    @pytest.mark.parametrize(
        ("policy", "words"),
        [
            (Policy(min_rows=4), "fewer rows than the 4"),
            (Policy(allowed_queries={"deviations"}), "allows only deviations"),
        ],
    )
    def test_a_refusal_names_the_site_and_the_reason(self, policy, words):
        federation = self.federate(make_sites(clinic_1=policy))
        with pytest.raises(SiteRefusal, match=words) as caught:
            federation.sum(Query("moments"))
        assert caught.value.site == "clinic-1"
        assert caught.value.query == "moments"

    def test_a_site_stops_after_the_rounds_it_allows(self):
        federation = self.federate(make_sites(clinic_2=Policy(max_rounds=2)))
        federation.sum(Query("moments"))
        federation.sum(Query("moments"))
        with pytest.raises(SiteRefusal, match="no more than 2"):
            federation.sum(Query("moments"))

    @pytest.mark.parametrize(
        ("query", "words"),
        [
            (Query("rows"), "no such question"),
            (Query("deviations"), "lacks mean"),
            (Query("deviations", {"mean": np.zeros(D + 1)}), "where d is 6"),
            (Query("deviations", {"mean": np.full(D, np.nan)}), "NaN"),
            (Query("deviations", {"mean": np.zeros(D, dtype=np.float32)}), "float64"),
            (Query("deviations", {"mean": np.zeros(D), "more": np.zeros(D)}), "does not take"),
            (Query("faspca_step", {"z": np.zeros((D, 2))}), "scalars"),
        ],
    )
    def test_a_malformed_question_is_refused(self, query, words):
        with pytest.raises(InvalidQuery, match=words):
            self.federate(make_sites()).sum(query)

    def test_sites_must_share_features(self):
        sites = [Site("a", np.zeros((3, 2)), feature_names=["age", "bmi"])]
        other = Site("b", np.zeros((3, 2)), feature_names=["bmi", "age"])
        with pytest.raises(SchemaMismatch, match=r"'b'.*'bmi'.*'age'"):
            self.federate([*sites, other])
        with pytest.raises(SchemaMismatch, match=r"'c'.*3 features, not 2"):
            self.federate([*sites, Site("c", np.zeros((3, 3)))])

    def test_a_fit_over_it_equals_the_fit_of_stacked_rows(self):
        sites = make_sites(sizes=(20, 11, 30))
        model = FASPCA(n_components=2, lam=3.0).fit_federation(self.federate(sites))
        stacked = FASPCA(n_components=2, lam=3.0).fit(pooled(sites))
        assert model.n_sites_ == 3
        assert np.isclose(model.objective_, stacked.objective_, rtol=1e-4)
