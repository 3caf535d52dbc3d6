"""Answers by fold: every row in one fold, the same sums over all folds, one pass."""

import numpy as np
import pytest
import scipy.sparse as sp

from fedspca import Policy, Query, Site, SiteRefusal
from fedspca.linalg import row_blocks
from fedspca.linalg.operators import Frame
from fedspca.site import InvalidQuery, folds
from fedspca.site.folds import deal
from fedspca.site.queries import ADDITIVE
from fedspca.solvers.asking import frame_arrays

F, D = 4, 5
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((41, D)) + 2.0
FRAME = Frame(RNG.standard_normal(D), RNG.uniform(0.5, 2.0, D), np.zeros((D, 0)))
Q = np.linalg.qr(RNG.standard_normal((D, 2)))[0]
EXACTLY = {"precision": "float64"}
QUESTIONS = {
    "moments": Query("moments"),
    "deviations": Query("deviations", {"mean": FRAME.mean}),
    "gram_product": Query("gram_product", {**frame_arrays(FRAME), "directions": Q}, EXACTLY),
    "gram_sketch": Query("gram_sketch", frame_arrays(FRAME), {"seed": 1, "columns": 2, **EXACTLY}),
    "gram": Query("gram", frame_arrays(FRAME), EXACTLY),
    "captured_variance": Query("captured_variance", {**frame_arrays(FRAME), "directions": Q}),
}


def test_every_additive_question_is_tried():
    assert set(QUESTIONS) == ADDITIVE


def as_they_come(kind):
    if kind == "dask":
        return pytest.importorskip("dask.array").from_array(ROWS, chunks=(9, D))
    return sp.csr_array(ROWS) if kind == "csr" else ROWS.astype(np.float32) if kind == "single" else ROWS


@pytest.mark.parametrize("kind", ["dense", "single", "csr", "dask"])
@pytest.mark.parametrize("name", sorted(QUESTIONS))
def test_a_fold_s_answer_is_that_of_its_rows_alone(name, kind, monkeypatch):
    monkeypatch.setattr(folds, "COPY_BYTES", 8 * D * 7)  # stretches of seven rows
    site, query = Site("north", as_they_come(kind)), QUESTIONS[name]
    found = site.answer(query.by_fold(F, 3))
    labels = deal("north", len(ROWS), F, 3)
    for fold in range(F):
        alone = Site("alone", np.asarray(ROWS, np.float32 if kind == "single" else float)[labels == fold])
        for term, value in alone.answer(query).items():
            np.testing.assert_allclose(found[term][fold], value, rtol=1e-9, atol=1e-9)
    for term, value in site.answer(query).items():
        np.testing.assert_allclose(found[term].sum(axis=0), value, rtol=1e-9, atol=1e-9)


def test_a_mapped_file_is_read_in_stretches_and_its_pages_are_given_back(tmp_path, monkeypatch):
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    monkeypatch.setattr(folds, "COPY_BYTES", 8 * D * 7)
    forgotten = []
    monkeypatch.setattr(folds, "forget_mapped", lambda rows: forgotten.append(rows.shape))
    found = Site("north", mapped).answer(QUESTIONS["gram"].by_fold(F, 3))
    np.testing.assert_array_equal(found["gram"], Site("north", ROWS).answer(QUESTIONS["gram"].by_fold(F, 3))["gram"])
    assert len(forgotten) >= len(ROWS) // 7


def test_missing_values_are_counted_by_fold():
    rows = np.where(RNG.random(ROWS.shape) < 0.2, np.nan, ROWS)
    found = Site("north", rows, allow_missing=True).answer(Query("moments").by_fold(F, 3))
    labels = deal("north", len(rows), F, 3)
    assert np.array_equal(found["counts"], [np.isfinite(rows[labels == fold]).sum(axis=0) for fold in range(F)])


def test_rows_are_visited_once(monkeypatch):
    seen = []
    original = row_blocks.row_blocks
    monkeypatch.setattr(
        row_blocks, "row_blocks", lambda rows, *a, **k: (seen.append(rows.shape[0]), original(rows, *a, **k))[1]
    )
    Site("north", ROWS).answer(QUESTIONS["gram"].by_fold(F, 3))
    visited = sum(seen[1:]) if seen[0] == len(ROWS) else sum(seen)  # the site checks its values once, at first
    assert visited == len(ROWS)


def test_the_deal_is_even_and_the_site_s_own():
    labels = deal("north", 43, 10, seed=1)
    assert sorted(np.bincount(labels, minlength=10)) == [4] * 7 + [5] * 3
    assert np.array_equal(labels, deal("north", 43, 10, seed=1))
    assert not np.array_equal(labels, deal("south", 43, 10, seed=1))
    assert not np.array_equal(labels, deal("north", 43, 10, seed=2))
    assert not np.array_equal(labels, np.sort(labels))  # rows in order may be alike


def test_a_site_with_too_few_rows_keeps_them_together():
    assert len(set(deal("north", 49, 10, seed=1, least=5))) == 1
    assert len(set(deal("north", 50, 10, seed=1, least=5))) == 10
    firsts = {int(deal(f"site {k}", 3, 10, seed=1, least=5)[0]) for k in range(50)}
    assert len(firsts) > 5  # not all such sites in one fold
    found = Site("north", ROWS, policy=Policy(min_fold_rows=20)).answer(Query("moments").by_fold(F, 3))
    assert sorted(found["rows"]) == [0.0, 0.0, 0.0, 41.0]


def test_what_the_owner_does_not_allow_is_refused():
    with pytest.raises(SiteRefusal, match="by 8 folds and the policy allows at most 4"):
        Site("north", ROWS, policy=Policy(max_folds=4)).answer(Query("moments").by_fold(8, 0))
    with pytest.raises(ValueError, match="'max_folds' parameter of Policy"):
        Policy(max_folds=-1)
    with pytest.raises(ValueError, match="'min_fold_rows' parameter of Policy"):
        Policy(min_fold_rows=0)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (Query("moments").by_fold(1, 0), "one fold is no fold"),
        (Query("moments", scalars={"folds": 4}), "takes the scalars"),
        (Query("moments", scalars={"folds": 4.0, "deal": 1}), "of type int"),
        (Query("curvature", frame_arrays(FRAME), {"reference": 1.0}).by_fold(4, 0), "cannot be answered by fold"),
    ],
)
def test_a_malformed_question_by_fold_is_refused(query, words):
    with pytest.raises(InvalidQuery, match=words):
        Site("north", ROWS).answer(query)
