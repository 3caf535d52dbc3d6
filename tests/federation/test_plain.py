import numpy as np
import pytest

from contracts.federation import EXACTLY, D, FederationContract, make_sites
from fedspca import LocalFederation, Query
from fedspca.federation.plain import PlainFederation
from helpers.letters import conversation_with
from helpers.troubles import SIZES, SOLVERS


class TestRemoteFederation(FederationContract):
    def federate(self, sites):
        return PlainFederation(conversation_with(sites))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_the_history_and_the_loadings_are_those_of_one_process(solver):
    here = type(solver)(**solver.get_params()).fit_federation(LocalFederation(make_sites(SIZES)))
    there = type(solver)(**solver.get_params()).fit_federation(PlainFederation(conversation_with(make_sites(SIZES))))
    assert np.array_equal(here.components_, there.components_)
    assert [(r.query, r.objective) for r in here.history_] == [(r.query, r.objective) for r in there.history_]


def test_frames_travel():
    """Infinite scales, which leave a feature out, are numbers like others."""
    sites = make_sites(SIZES)
    scale = np.ones(D)
    scale[2] = np.inf
    arrays = {"mean": np.zeros(D), "scale": scale, "removed": np.zeros((D, 0)), "directions": np.eye(D)[:, :2]}
    product = PlainFederation(conversation_with(sites)).sum(Query("gram_product", arrays, EXACTLY))["product"]
    assert np.array_equal(product[2], np.zeros(2))
