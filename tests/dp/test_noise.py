"""Sensitivity, noise, the ledger, and an audit that must be able to fail."""

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import beta, norm

from fedspca import InvalidQuery, Query, Site, SiteRefusal
from fedspca.dp import noise
from fedspca.dp.accounting import Budget, Cost, Purpose, epsilon_of
from fedspca.dp.ledger import BudgetSpent, Ledger
from fedspca.dp.noise import packed, unpacked
from fedspca.letters.audit import BrokenLog
from fedspca.site.queries import QUERIES
from fedspca.site.question import SiteData

D = 3


def silent(monkeypatch):
    monkeypatch.setattr(noise, "discrete_gaussian", lambda scale, size: np.zeros(size))


def query(name, d=D, clip=2.0, sigma=10.0, grid=24, among=1):
    arrays = {"centre": np.full(d, 0.5), "scale": np.full(d, 2.0)}
    scalars = {"sigma": sigma, "grid": grid, "among": among}
    if name == "private_product":
        arrays["directions"] = np.linalg.qr(np.random.default_rng(0).standard_normal((d, 2)))[0]
    if name == "private_lengths":
        arrays["edges"] = np.array([0.5, 1.0, 2.0, 4.0])
    else:
        scalars["clip"] = clip
    if name in ("private_gram", "private_moments"):
        scalars["offset"] = 0.3
    return Query(name, arrays, scalars)


PRIVATE = sorted(name for name, question in QUERIES.items() if question.cost is not None)
values = st.floats(-1e6, 1e6, allow_subnormal=False)


@pytest.mark.parametrize("name", PRIVATE)
@settings(max_examples=60, deadline=None)
@given(
    rows=hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(D)), elements=values),
    row=hnp.arrays(np.float64, (1, D), elements=values),
)
def test_one_row_changes_a_release_by_no_more_than_is_paid_for(name, rows, row):
    asked = query(name)
    with pytest.MonkeyPatch.context() as monkeypatch:
        silent(monkeypatch)
        (before,) = QUERIES[name].answer(SiteData("s", rows), None, asked)[1].values()
        (after,) = QUERIES[name].answer(SiteData("s", np.vstack([rows, row])), None, asked)[1].values()
    paid_for = asked.scalars["sigma"] / QUERIES[name].cost(D, asked).multiplier
    assert np.linalg.norm(after - before) <= paid_for


def test_the_bound_on_the_gram_matrix_is_reached(monkeypatch):
    """A bound that nothing reaches would be noise for nothing."""
    silent(monkeypatch)
    asked = query("private_gram", clip=2.0)
    rows = np.full((4, D), 0.5)
    more = np.vstack([rows, np.full((1, D), 1e3)])
    before, after = (QUERIES["private_gram"].answer(SiteData("s", x), None, asked)[1]["gram"] for x in (rows, more))
    assert np.isclose(np.linalg.norm(after - before), 2.0**2 + 0.3**2, rtol=1e-5)


def test_packing_keeps_the_norm_and_comes_back():
    matrix = np.random.default_rng(0).standard_normal((5, 5))
    matrix += matrix.T
    assert np.isclose(np.linalg.norm(packed(matrix)), np.linalg.norm(matrix))
    assert np.allclose(unpacked(packed(matrix)), matrix)


def test_noise_is_a_discrete_gaussian_of_the_size_that_was_asked():
    drawn = noise.discrete_gaussian(float(1 << 22), 50_000)
    assert np.array_equal(drawn, np.rint(drawn))
    assert abs(drawn.mean()) < 5 * (1 << 22) / math.sqrt(50_000)
    assert np.isclose(drawn.std(), 1 << 22, rtol=0.02)
    released = noise.noised(np.zeros(1000), 3.0, 24)
    assert np.array_equal(released, np.rint(np.ldexp(released, 24)) / 2**24)
    assert np.isclose(released.std(), 3.0, rtol=0.15)


def test_a_grid_that_is_too_coarse_or_too_fine_is_refused():
    site = Site("s", np.ones((3, D)))
    site.ledger = Ledger(Budget(5.0, 1e-6))
    with pytest.raises(SiteRefusal, match="too coarse"):
        site.answer(query("private_gram", grid=2))
    with pytest.raises(Exception, match="too fine"):
        site.answer(query("private_gram", sigma=1e6, grid=40))


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e300, np.inf])
def test_no_stated_scale_makes_a_row_infinitely_long(monkeypatch, scale):
    silent(monkeypatch)
    asked = query("private_gram")
    asked.arrays["scale"][:] = scale
    rows = np.array([[1e60, -3.0, 0.5], [0.5, 0.5, 0.5]])
    before, after = (QUERIES["private_gram"].answer(SiteData("s", x), None, asked)[1]["gram"] for x in (rows[1:], rows))
    assert np.linalg.norm(after - before) <= asked.scalars["sigma"] / QUERIES["private_gram"].cost(D, asked).multiplier


@pytest.mark.parametrize(
    "scalars", [{"grid": 10**6}, {"clip": 1e200}, {"sigma": 1e300}, {"sigma": 1e-300}, {"among": 0}, {"offset": 1e300}]
)
def test_a_question_that_cannot_be_accounted_for_is_refused(scalars):
    site = Site("s", np.ones((3, D)))
    site.ledger = Ledger(Budget(5.0, 1e-6))
    asked = query("private_gram")
    with pytest.raises((SiteRefusal, InvalidQuery)):
        site.answer(Query(asked.name, asked.arrays, {**asked.scalars, **scalars}))


def test_lengths_without_edges_are_refused():
    site = Site("s", np.ones((3, D)))
    site.ledger = Ledger(Budget(5.0, 1e-6))
    asked = query("private_lengths")
    with pytest.raises(SiteRefusal, match="nothing to release"):
        site.answer(Query(asked.name, {**asked.arrays, "edges": np.zeros(0)}, asked.scalars))


def test_sparse_rows_are_shortened_as_dense_ones(monkeypatch):
    silent(monkeypatch)
    rows = sp.random_array((500, D), density=0.3, random_state=0, format="csr")
    asked = query("private_gram")
    sparse, dense = (
        QUERIES["private_gram"].answer(SiteData("s", x), None, asked)[1]["gram"] for x in (rows, rows.toarray())
    )
    assert np.allclose(sparse, dense, atol=1e-6)


def test_a_discrete_gaussian_is_as_near_to_a_rounded_one_as_is_charged():
    for steps in (5.0, 20.0, 100.0):
        k = np.arange(-12 * int(steps), 12 * int(steps) + 1)
        discrete = np.exp(-(k**2) / (2 * steps**2))
        rounded = norm.cdf(k + 0.5, scale=steps) - norm.cdf(k - 0.5, scale=steps)
        distance = np.abs(discrete / discrete.sum() - rounded).sum() / 2
        assert distance < 1 / (20 * steps**2)


# -- the audit ---------------------------------------------------------------------------------------------------------


def audited_epsilon(asked, delta, trials=1500, confidence=0.95):
    """A lower bound on ε, from how well a test tells rows with one more from rows without it."""
    rows = np.full((5, D), 0.5)
    more = np.vstack([rows, np.full((1, D), 1e3)])
    difference = np.ones(D)  # in the frame the row lies on the diagonal
    direction = packed(np.outer(np.r_[difference, 0], np.r_[difference, 0]))
    outcomes = []
    for x in (rows, more):
        data = SiteData("s", x)
        outcomes.append(
            [QUERIES["private_gram"].answer(data, None, asked)[1]["gram"] @ direction for _ in range(trials)]
        )
    without, with_row = np.array(outcomes)
    best = 0.0
    half = trials // 2  # the threshold is chosen on one half and judged on the other
    threshold = max(
        np.quantile(with_row[:half], [0.1, 0.25, 0.5, 0.75]), key=lambda t: _ratio(without[:half], with_row[:half], t)
    )
    hits, alarms = np.sum(with_row[half:] >= threshold), np.sum(without[half:] >= threshold)
    low = beta.ppf((1 - confidence) / 2, hits, half - hits + 1) if hits else 0.0
    high = beta.ppf((1 + confidence) / 2, alarms + 1, half - alarms) if alarms < half else 1.0
    if low > delta:
        best = max(best, math.log((low - delta) / high))
    return best


def _ratio(without, with_row, threshold):
    return np.mean(with_row >= threshold) / (np.mean(without >= threshold) + 0.01)


def test_the_audit_finds_no_more_than_was_promised_and_notices_missing_noise(monkeypatch):
    delta = 1e-6
    asked = query("private_gram", sigma=1.9 * (2.0**2 + 0.3**2))
    stated = epsilon_of([QUERIES["private_gram"].cost(D, asked)], delta)
    found = audited_epsilon(asked, delta)
    assert found < stated
    assert found > 0.1  # it does see something
    monkeypatch.setattr(noise, "discrete_gaussian", lambda scale, size: np.zeros(size))
    assert audited_epsilon(asked, delta) > stated


# -- the ledger --------------------------------------------------------------------------------------------------------


def test_gaussians_compose_as_dp_accounting_says():
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    for multiplier in (8.0, 12.0, 20.0):
        accountant.compose(GaussianDpEvent(multiplier))
    ours = epsilon_of([Cost(8.0, 0.0), Cost(12.0, 0.0), Cost(20.0, 0.0)], 1e-6)
    assert np.isclose(ours, accountant.get_epsilon(1e-6), rtol=1e-3)


def test_a_release_without_noise_costs_everything():
    assert epsilon_of([Cost(0.0, 0.0)], 1e-6) == math.inf
    assert epsilon_of([Cost(5.0, 1e-3)], 1e-6) == math.inf
    assert epsilon_of([Cost(5.0, 1e-9)], 1e-6) > epsilon_of([Cost(5.0, 0.0)], 1e-6)


def test_the_ledger_refuses_at_the_limit_and_survives_a_restart(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(Budget(1.0, 1e-6), path)
    ledger.charge(Cost(8.0, 0.0), "private_gram", "a")
    spent = ledger.spent()
    assert 0.4 < spent < 0.6
    again = Ledger(Budget(1.0, 1e-6), path)
    assert again.spent() == spent
    with pytest.raises(BudgetSpent, match="owner allows 1"):
        again.charge(Cost(4.3, 0.0), "private_gram", "b")
    assert again.spent() == spent
    again.charge(Cost(5.5, 0.0), "private_gram", "c")
    assert again.content()["epsilon"] <= 1.0
    assert [line["what"] for line in again.content()["releases"]] == ["private_gram"] * 2


@pytest.mark.parametrize("how", ["change", "remove the last", "remove the first"])
def test_a_ledger_that_was_tampered_with_pays_for_nothing(tmp_path, how):
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(Budget(5.0, 1e-6), path)
    for question in "abc":
        ledger.charge(Cost(20.0, 0.0), "private_gram", question)
    lines = path.read_text().splitlines()
    if how == "change":
        lines[1] = json.dumps({**json.loads(lines[1]), "multiplier": 1e6})
    else:
        del lines[-1 if how == "remove the last" else 0]
        if how == "remove the last":
            del lines[-1]
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(BudgetSpent, match="tampered"):
        ledger.charge(Cost(20.0, 0.0), "private_gram", "d")
    with pytest.raises(BrokenLog):
        Ledger(Budget(5.0, 1e-6), path)


def test_a_study_has_a_limit_of_its_own_and_pays_once_for_an_answer():
    ledger = Ledger(Budget(10.0, 1e-6))
    purpose = Purpose("study", "run", 1, Budget(1.0, 1e-6), 1)
    ledger.charge(Cost(5.0, 0.0), "private_gram", "a", purpose)
    ledger.charge(Cost(5.0, 0.0), "private_gram", "a", purpose)  # the site was stopped before the answer left
    assert len(list(ledger.entries())) == 1
    later = Purpose("study", "run", 2, Budget(1.0, 1e-6), 1)
    with pytest.raises(BudgetSpent, match="study may spend 1"):
        ledger.charge(Cost(5.0, 0.0), "private_gram", "a", later)
    other = Purpose("another", "run", 2, Budget(1.0, 1e-6), 1)
    ledger.charge(Cost(5.0, 0.0), "private_gram", "a", other)
    assert ledger.spent("study") < ledger.spent()


def test_a_site_with_a_ledger_answers_nothing_without_noise_and_a_site_without_one_nothing_with_it():
    site = Site("s", np.ones((3, D)))
    with pytest.raises(SiteRefusal, match="no ledger"):
        site.answer(query("private_gram"))
    site.ledger = Ledger(Budget(5.0, 1e-6))
    with pytest.raises(SiteRefusal, match="only answers with noise"):
        site.answer(Query("moments"))
    with pytest.raises(SiteRefusal, match="noise of 4 sites was counted on"):
        site.answer(query("private_gram", among=4))
    assert not list(site.ledger.entries())
    site.answer(query("private_gram", sigma=50.0))
    assert len(list(site.ledger.entries())) == 1
