"""From sums by fold to the covariance of any union of folds, as if its rows had been analysed alone."""

import numpy as np
import pytest

from fedspca import ExactSPCA, InvalidData, LocalFederation, Site
from fedspca.federation.folded import FoldedFederation
from fedspca.site.folds import deal
from fedspca.solvers.folds.sums import check_folds, fold_sums

F = 6
RNG = np.random.default_rng(2)
ROWS = RNG.standard_normal((90, 12)) @ np.diag(np.linspace(1, 4, 12)) + 50.0
ROWS[:, :4] += 5.0 * RNG.standard_normal((90, 1))
PARTS = np.array_split(ROWS, 2)
LABELS = np.concatenate([deal(name, len(part), F, 0) for name, part in zip("ab", PARTS, strict=True)])


def sums_of(*, scale, search="auto", rows=PARTS, most=500):
    folded = FoldedFederation(LocalFederation([Site(n, part) for n, part in zip("ab", rows, strict=True)]), F, 0)
    model = ExactSPCA(2, n_nonzero=4, scale=scale, search=search, proof_seconds=0.0).fit_federation(folded)
    return fold_sums(folded.asked, model.state_.moments, model.components_.T, scaled=scale, most=most)


def standardised(rows, like, scale):
    return (rows - like.mean(axis=0)) / (like.std(axis=0, ddof=1) if scale else 1.0)


@pytest.mark.parametrize("scale", [True, False])
def test_a_subsample_is_that_of_its_rows(scale):
    found = sums_of(scale=scale)
    chosen = np.array([True, False, True, False, False, True])
    rows = ROWS[np.isin(LABELS, np.flatnonzero(chosen))]
    a = standardised(rows, rows, scale)
    sample = found.subsample(chosen)
    assert sample.n == len(rows)
    np.testing.assert_allclose(sample.matrix, a.T @ a, atol=1e-8)
    np.testing.assert_allclose(sample.trace, (a**2).sum())


@pytest.mark.parametrize("scale", [True, False])
def test_rows_left_out_are_seen_as_the_others_would_see_them(scale):
    found = sums_of(scale=scale)
    train = np.arange(F) != 2
    b = standardised(ROWS[LABELS == 2], ROWS[LABELS != 2], scale)
    test = found.held_out(2, train, found.subsample(train).scale)
    np.testing.assert_allclose(test.matrix, b.T @ b, atol=1e-8)
    np.testing.assert_allclose(test.trace, (b**2).sum())


def test_products_give_a_model_that_never_claims_more_and_knows_the_diagonal():
    found = sums_of(scale=False, search="products")
    chosen = np.arange(F) < 3
    rows = ROWS[LABELS < 3]
    s = standardised(rows, rows, False).T @ standardised(rows, rows, False)
    model = found.subsample(chosen).matrix
    assert found.grams is None
    np.testing.assert_allclose(model.diagonal(), s.diagonal())
    values, vectors = np.linalg.eigh(s)
    top = vectors[:, -2:]
    assert np.trace(top.T @ model @ top) > 0.98 * values[-2:].sum()
    assert np.linalg.eigvalsh(model)[0] > -1e-8 * values[-1]


def test_of_many_features_those_that_covary_and_those_with_weights_are_in_sight():
    found = sums_of(scale=False, most=8)
    assert set(range(4)) <= set(found.features)
    assert len(found.features) == 8
    rows = ROWS[np.isin(LABELS, [0, 1, 2])]
    a = standardised(rows, rows, False)
    sample = found.subsample(np.arange(F) < 3)
    np.testing.assert_allclose(sample.matrix, (a.T @ a)[np.ix_(found.features, found.features)], atol=1e-8)
    np.testing.assert_allclose(sample.trace, (a**2).sum())


def test_too_many_folds_are_refused():
    with pytest.raises(
        InvalidData, match=r"10 folds are too many .* Set folds \(--folds\) to a smaller number, such as 4;"
    ):
        check_folds(np.array([2.0] * 9 + [1.0]))
    for rows in ([1.0] * 2 + [0.0] * 8, [3.0] * 3 + [1.0]):
        with pytest.raises(InvalidData, match=r"needs two or more\. There are too few rows for folds\."):
            check_folds(np.array(rows))
    few = [ROWS[:7], ROWS[7:12]]
    with pytest.raises(InvalidData, match="6 folds are too many"):
        sums_of(scale=False, rows=few)
