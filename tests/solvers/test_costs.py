"""What fits cost in passes and in memory, counted rather than timed."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from fedspca import FASPCA, FSSPCA, ExactSPCA, LocalFederation, Query, Site
from fedspca.linalg.operators import StandardisedRows
from fedspca.site.answers.products import random_directions


@pytest.fixture
def passes(monkeypatch):
    """The columns of every product AᵀAx that was formed."""
    made, multiply = [], StandardisedRows.gram_product

    def counted(self, x, *args):
        made.append(x.shape[1])
        return multiply(self, x, *args)

    monkeypatch.setattr(StandardisedRows, "gram_product", counted)
    return made


@pytest.mark.parametrize(
    ("model", "most"), [(FASPCA(2, lam=190, scale=True), 3), (FSSPCA(2, lam1=10, lam2=190, scale=True), 15)]
)
def test_a_consensus_round_makes_few_passes(wdbc, passes, model, most):
    by_round = []
    model.set_params(tol=3e-2, callbacks=[lambda record: by_round.append((record.query, len(passes)))])
    model.fit(wdbc)
    taken = [
        after - before for (_, before), (query, after) in pairwise(by_round) if query in {"faspca_step", "fsspca_step"}
    ]
    assert len(taken) > 5
    assert max(taken) <= most


def test_exact_makes_one_pass_a_round(wdbc, passes):
    model = ExactSPCA(2, n_nonzero=30, scale=True, search="products").fit(wdbc)
    assert len(passes) == model.n_rounds_ - 2  # mean and spread are sums of their own


def test_a_sparse_fit_takes_memory_by_columns_and_not_by_cells():
    n, d = 3000, 30_000
    rng = np.random.default_rng(0)
    x = sp.csr_array((rng.random(30_000), (rng.integers(0, n, 30_000), rng.integers(0, d, 30_000))), shape=(n, d))
    model = ExactSPCA(2, n_nonzero=10)
    tracemalloc.start()
    try:
        with pytest.warns(UserWarning, match="one value"):
            model.fit(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # the model has 22 columns of each of three power rounds; dense rows would take 45 times as much
    assert peak < 8 * (8 * d * 3 * 22)


def test_many_sites_hold_one_sum_not_one_each():
    d, k = 40_000, 20
    rng = np.random.default_rng(0)
    sites = [Site(f"{i:02d}", rng.standard_normal((3, d)), feature_names=None) for i in range(k)]
    federation = LocalFederation(sites, n_threads=1)
    frame = {"mean": np.zeros(d), "scale": np.ones(d), "removed": np.zeros((d, 0))}
    query = Query("gram_sketch", frame, {"seed": 0, "columns": 10, "precision": "float64"})
    tracemalloc.start()
    try:
        answer = federation.sum(query)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * answer["product"].nbytes
    expected = sum(x.T @ (x @ random_directions(0, (d, 10))) for x in (site._data.rows for site in sites))
    np.testing.assert_allclose(answer["product"], expected, rtol=1e-9, atol=1e-6)


def test_sites_in_one_process_draw_the_shared_directions_once(wdbc, monkeypatch):
    drawn = []
    draw = np.random.default_rng

    def counted(seed=None):
        drawn.append(seed)
        return draw(seed)

    monkeypatch.setattr(np.random, "default_rng", counted)
    ExactSPCA(2, n_nonzero=10, random_state=5).fit(wdbc, sites=np.arange(len(wdbc)) % 10)
    counts = {seed: drawn.count(seed) for seed in drawn if isinstance(seed, int) and seed}  # the search itself has 0
    assert max(counts.values()) <= 2  # by the coordinator, before it asks and while it does


def test_a_sum_leaves_the_sites_answers_as_they_were():
    answers = [{"a": np.ones(3)}, {"a": np.full(3, 2.0)}, {"a": np.full(3, 4.0)}]
    from fedspca.federation.base import add_in_order

    total = add_in_order([(str(i), terms) for i, terms in enumerate(answers)], Query("moments"))
    assert total["a"].tolist() == [7.0] * 3
    assert [terms["a"][0] for terms in answers] == [1.0, 2.0, 4.0]
