import threading

import numpy as np
import pytest

from contracts.federation import FederationContract, make_sites
from fedspca import FederationError, LocalFederation, Query, Site


class TestLocalFederation(FederationContract):
    def federate(self, sites):
        return LocalFederation(sites)


class TestLocalFederationOnThreads(FederationContract):
    def federate(self, sites):
        return LocalFederation(sites, n_threads=3)


def test_the_sum_has_the_same_bits_whoever_answers_first():
    class Late(Site):
        """Answers only when the other has."""

        def __init__(self, name, rows, wait, done):
            super().__init__(name, rows)
            self.wait, self.done = wait, done

        def answer(self, query):
            assert self.wait is None or self.wait.wait(timeout=30)
            terms = super().answer(query)
            self.done.set()
            return terms

    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((5, 40)) * 10.0**k for k in range(3)]
    sums = []
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        events = [threading.Event() for _ in range(3)]
        waits = {order[0]: None, order[1]: events[order[0]], order[2]: events[order[1]]}
        sites = [Late(f"s{k}", tables[k], waits[k], events[k]) for k in order]
        sums.append(LocalFederation(sites, n_threads=3).sum(Query("moments"))["sums"])
    assert np.array_equal(sums[0], sums[1])
    assert np.array_equal(sums[0], sums[2])
    terms = [site.answer(Query("moments"))["sums"] for site in sites]
    assert not np.array_equal(terms[0] + (terms[1] + terms[2]), (terms[0] + terms[1]) + terms[2])  # order does matter


def test_sites_need_different_names():
    with pytest.raises(FederationError, match="clinic-0"):
        LocalFederation([*make_sites(), *make_sites()])


def test_there_must_be_a_site():
    with pytest.raises(FederationError, match="at least one site"):
        LocalFederation([])


def test_a_term_that_is_not_finite_names_its_site():
    sites = [Site("fine", np.ones((3, 2))), Site("huge", np.full((3, 2), 1e60))]
    frame = {
        "mean": np.zeros(2),
        "scale": np.full(2, 1e-100),
        "removed": np.zeros((2, 0)),
        "directions": np.ones((2, 1)),
    }
    with np.errstate(all="ignore"), pytest.raises(FederationError, match=r"'huge'.*units"):
        LocalFederation(sites).sum(Query("gram_product", frame, {"precision": "float64"}))


def test_small_sites_are_asked_without_threads_and_large_ones_with():
    assert LocalFederation(make_sites()).n_threads == 1
    assert LocalFederation(make_sites(), n_threads=9).n_threads == 4


def test_an_aggregate_holds_no_single_term():
    answer = LocalFederation(make_sites()).sum(Query("moments"))
    assert set(vars(answer)) == {"arrays", "n_sites", "bytes_up", "bytes_down"}
