"""The benchmarks measure what they say: references find what is planted, slow jobs are stopped, bars can fail."""

import time
from functools import partial

import numpy as np
import pytest
from benchmarks.effects import forms
from benchmarks.growth import exponent
from benchmarks.machine import _bars
from benchmarks.measure import Bar, Measured, measured
from benchmarks.modes import Case, small
from benchmarks.modes import _bars as mode_bars
from benchmarks.peers import PEERS, quality
from benchmarks.workloads import Workload, equal_blocks, sparse_rows, spiked
from sklearn.datasets import load_digits

WORK = Workload("W0", partial(spiked, 300, 60, (40.0, 30.0), 5), 2, 5, 1.0, partial(equal_blocks, 2, 60, 5))


@pytest.mark.parametrize("name", ["truncated power", "truncated power, PCA", "GPower", "PCA truncated", "ExactSPCA"])
def test_references_find_planted_loadings(name):
    x = WORK.make()
    figures = quality(WORK, x, PEERS[name](x, WORK))
    assert figures["recovery_error"] < 0.05
    assert quality(WORK, x, np.eye(2, 60))["recovery_error"] > 1.0


def test_explained_variance_is_that_of_the_span():
    x = WORK.make()
    w = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0]]) @ np.eye(3, 60)
    centred = x - x.mean(axis=0)
    expected = np.sum(centred[:, :2] ** 2) / np.sum(centred**2)
    assert quality(WORK, x, w)["explained"] == pytest.approx(expected)
    sparse = sparse_rows(50, 60, 0.1)
    dense = Workload("dense", WORK.make, 2, 5, 1.0)
    assert quality(dense, sparse, np.eye(2, 60)) == pytest.approx(quality(dense, sparse.toarray(), np.eye(2, 60)))


def ones(size):
    return np.ones(size)


def copies(n, x):
    return [x.copy() for _ in range(n)]


def sleep(seconds, _x):
    time.sleep(seconds)


def spin(_x):
    while True:
        pass


def fail(_x):
    raise ValueError("no such data")


def test_memory_is_what_the_job_adds():
    outcome = measured(partial(ones, 1 << 22), partial(copies, 3), repeats=1)
    assert isinstance(outcome, Measured)
    assert outcome.grown == pytest.approx(3 * 8 * (1 << 22), rel=0.1)


def test_a_slow_job_is_stopped_and_a_failing_one_named():
    began = time.monotonic()
    for job in (partial(sleep, 60.0), spin):
        assert measured(partial(ones, 1), job, limit=0.5) == "none in 0.5 CPU s"
    assert time.monotonic() - began < 30.0
    assert measured(partial(ones, 1), fail) == "ValueError: no such data"


def test_exponents_of_power_laws():
    assert exponent([(n, 3.0 * n**1.25) for n in (10, 100, 1000)]) == pytest.approx(1.25)


def test_bars_fail_where_a_peer_is_better():
    ours = {"cpu": 1.5, "cpu_ratio": 1.5, "explained": 0.5}
    peers = {"SparsePCA cd": {"cpu_ratio": 30.0, "explained": 0.4}, "GPower": {"cpu_ratio": 3.0, "explained": 0.45}}
    rows = {"ExactSPCA": ours, "ExactSPCA overlapping": ours, **peers}
    assert all(bar.holds for bar in _bars(WORK, rows))
    better = {**rows, "GPower": {"cpu_ratio": 0.1, "explained": 0.51}, "SparsePCA cd": {"failed": "none in 40 s"}}
    failing = [bar.what for bar in _bars(WORK, better) if not bar.holds]
    assert failing == [
        "explained variance at least the best peer's to 1e-3",
        "ExactSPCA at most 10 × the cheapest sparse peer that is right here, or 0.1 s",
        "ExactSPCA overlapping at most 10 × the cheapest sparse peer that is right here, or 0.1 s",
    ]
    wrong = {**rows, "GPower": {"cpu_ratio": 0.1, "explained": 0.45}}  # fast, and not right
    assert all(bar.holds for bar in _bars(WORK, wrong))
    slow = {**rows, "ExactSPCA": {**ours, "cpu": 3.0, "cpu_ratio": 3.0}}  # PCA takes a second
    assert [bar.what for bar in _bars(WORK, slow) if not bar.holds][:1] == ["ExactSPCA at most 2 × dense PCA"]
    small = {**rows, "ExactSPCA": {**ours, "cpu": 0.11, "cpu_ratio": 11.0}}  # PCA takes ten milliseconds
    assert "ExactSPCA at most 6 × dense PCA or 0.1 s" in [bar.what for bar in _bars(WORK, small) if not bar.holds]
    assert str(Bar("here", "is so", "1", False)).startswith("FAIL")


def test_a_mode_fails_if_it_is_slow_or_loses_variance():
    case = Case("W8 wine", partial(ones, 1), 2, 5, "n_nonzero", "at most 6 × PCA or 0.1 s", small)
    row = {"cpu": 0.05, "pca": 0.001, "value": 5.0, "best": 5.0}
    assert all(bar.holds for bar in mode_bars(case, row))
    assert [bar.holds for bar in mode_bars(case, {**row, "cpu": 0.2})] == [False, True]
    assert [bar.holds for bar in mode_bars(case, {**row, "value": 4.999})] == [True, False]
    fewer = {**row, "value": -13.0, "best": -12.0}  # non-zeros
    assert [bar.holds for bar in mode_bars(case, fewer)] == [True, False]
    assert not mode_bars(case, {"failed": "none in 60 CPU s"})[0].holds


def test_forms_of_digits_are_told_apart():
    """Every form has the same 130 digits, of which some lack a few."""
    digits = load_digits().target
    form = forms(digits)
    assert np.all(np.diff(form) >= 0)
    whole = [digits[form == number] for number in np.unique(form) if np.sum(form == number) == 130]
    assert len(np.unique(form)) == 14
    assert np.bincount(form)[1:].min() >= 120
    assert len(whole) >= 6
    assert all(np.sum(one != whole[0]) <= 1 for one in whole)  # one of them has another digit in one place
