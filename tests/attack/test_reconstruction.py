"""The attack on plain messages must succeed: it is why terms are masked. That it fails under masks is tested there."""

import numpy as np
import pytest

from fedspca import FASPCA, FSSPCA, ExactSPCA
from fedspca.attack.__main__ import TARGET, attack, example_sites
from fedspca.attack.reconstruction import Transcript, error_by_round, reconstruct


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("init", ["warm", "random"])
def test_faspca_gives_a_site_s_covariance_away_by_round_twelve(seed, init):
    errors = attack(FASPCA(2, lam=3.0, init=init, max_rounds=12), example_sites(seed=seed))
    assert len(errors) == 12
    assert errors[-1] < 1e-6
    assert errors[4] > 0.01  # there are not enough equations yet


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_so_does_fsspca_where_sites_solve_their_problem(seed):
    errors = attack(FSSPCA(2, lam2=3.0, local_steps=3000, local_tol=1e-9, max_rounds=15), example_sites(seed=seed))
    assert errors[4] > 0.1
    assert errors[-1] < 0.05  # how well a site solves its problem depends on rounding, and so does this


def test_products_give_it_away_as_soon_as_the_directions_span_the_features():
    assert attack(ExactSPCA(2, lam=3.0), example_sites())[1] < 1e-12


def test_a_site_of_one_row_sends_that_row():
    sites = [*example_sites(sites=2), *example_sites(rows=1, sites=1, seed=5)]
    sites[2].name = "alone"
    transcript = Transcript(sites, "alone")
    ExactSPCA(2, lam=3.0).fit_federation(transcript)
    query, terms = transcript.messages[0]
    assert query.name == "moments"
    assert np.array_equal(terms["sums"], sites[2]._data.rows[0])


def test_nothing_said_is_nothing_known():
    assert not reconstruct([], TARGET, 4).any()
    assert error_by_round([], TARGET, np.eye(4)) == []
