"""What a person is told of a model is true, adds up, and does not hang on the last bits."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA

from fedspca import FASPCA, ExactSPCA, SparsePCAModel, StopReason
from fedspca.report import report_html
from fedspca.report.words import summary
from fedspca.site.errors import count

WDBC = load_breast_cancer().data
Z = (WDBC - WDBC.mean(axis=0)) / WDBC.std(axis=0, ddof=1)


def model_of(r, k, rows=WDBC, **settings):
    return SparsePCAModel.from_estimator(ExactSPCA(r, n_nonzero=k, scale=True, proof_seconds=0.0, **settings).fit(rows))


def spanned(components):
    basis = np.linalg.qr(components.T)[0]
    return float(np.sum((Z @ basis) ** 2) / np.sum(Z**2))


@pytest.mark.parametrize("orthogonal", [True, False])
def test_shares_are_those_of_the_span_and_add_up(orthogonal):
    model = model_of(4, 5, orthogonal=orthogonal)
    expected = [spanned(model.components[:j]) for j in range(1, 5)]
    np.testing.assert_allclose(model.captured_ratios, expected, rtol=1e-9)
    np.testing.assert_allclose(model.captured_shares.sum(), model.captured_ratio, rtol=1e-12)
    assert model.explained_variance_ratio.sum() < model.captured_ratio  # scores correlate
    dense = PCA(4).fit(Z).explained_variance_ratio_
    assert np.all(model.captured_ratios <= np.cumsum(dense) + 1e-12)


def test_shares_are_in_order():
    for r, k in ((5, 3), (3, 8), (6, 6)):
        assert np.all(np.diff(model_of(r, k).captured_shares) <= 1e-12)


@pytest.mark.parametrize("fitted", [ExactSPCA(3, n_nonzero=8, scale=True), FASPCA(2, lam=200.0, scale=True)])
def test_a_model_from_python_knows_how_its_scores_correlate(fitted):
    """The report once said that scores are uncorrelated, and added up variances that overlap."""
    model = SparsePCAModel.from_estimator(fitted.fit(WDBC))
    scores = Z @ model.components.T
    np.testing.assert_allclose(model.correlation, np.corrcoef(scores.T), atol=1e-6)
    assert model.captured_ratio == pytest.approx(spanned(model.components), rel=1e-6)
    largest = np.abs(np.corrcoef(scores.T) - np.eye(len(scores.T))).max()
    page = report_html(model)
    assert f"{largest:.2f}" in page
    assert f"{model.captured_ratio:.1%}" in page


def test_components_that_say_the_same_are_named_with_what_to_do():
    model = model_of(3, 3)
    correlation = np.corrcoef((Z @ model.components.T).T)
    ((first, second, value),) = model.overlaps()
    assert (first, second) == (1, 2)
    assert value == pytest.approx(correlation[0, 1], abs=1e-9)
    assert value > 0.8
    (caution,) = model.cautions()
    assert "1 and 2 (+0.97)" in caution
    assert "more features a component" in caution
    assert "say nearly the same" in report_html(model)
    assert model_of(2, 6).cautions() == []


def test_loadings_that_are_nearly_parallel_are_named():
    """Two loadings may share a pair of opposite features, and hide what they capture together in small weights."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 2, 500)
    cluster = rng.standard_normal((500, 1)) + 0.2 * rng.standard_normal((500, 6))
    rows = np.column_stack([code, 1 - code, cluster])
    model = model_of(2, 5, rows=rows, orthogonal=False)
    apart = model.components / np.linalg.norm(model.components, axis=1)[:, None]
    ((first, second, cosine),) = model.parallels()
    assert (first, second) == (1, 2)
    assert cosine == pytest.approx(apart[0] @ apart[1])
    assert abs(cosine) > 0.9
    assert f"nearly parallel: 1 and 2 ({cosine:+.3f})" in model.cautions()[0]
    assert model_of(2, 5, rows=rows).parallels() == []


def test_without_scaling_a_feature_whose_unit_decides_is_named():
    """In Python features are not scaled by default, at the command line they are: it is said where it bites."""
    raw = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=3, proof_seconds=0.0).fit(WDBC))
    (caution,) = [told for told in raw.cautions() if "not scaled" in told]
    variances = WDBC.var(axis=0)
    assert f"'x23' alone has {variances[23] / variances.sum():.0%}" in caution
    assert "scale=True" in caution
    np.testing.assert_allclose(raw.spread, WDBC.std(axis=0, ddof=1))
    alike = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=3, proof_seconds=0.0).fit(Z))
    assert not [told for told in alike.cautions() if "not scaled" in told]


@pytest.mark.parametrize(
    ("limit", "remedy"), [({"max_rounds": 3}, "more rounds"), ({"max_seconds": 1e-6}, "more time")]
)
def test_a_fit_that_was_cut_short_says_so_and_what_helps(limit, remedy):
    fitted = ExactSPCA(2, lam=5.0, search="products", scale=True, **limit)
    with pytest.warns(match=remedy):
        fitted.fit(WDBC)
    (caution,) = [told for told in SparsePCAModel.from_estimator(fitted).cautions() if "before its search" in told]
    assert remedy in caution


@pytest.mark.parametrize(
    "changed",
    [
        np.asfortranarray(WDBC),
        WDBC[::-1].copy(),
        WDBC * (1 + 1e-13 * np.random.default_rng(0).standard_normal(WDBC.shape)),
    ],
    ids=["memory order", "row order", "last bits"],
)
def test_what_is_told_does_not_hang_on_memory_row_order_or_last_bits(changed):
    ours, theirs = model_of(5, 3), model_of(5, 3, changed)
    assert np.array_equal(ours.components != 0, theirs.components != 0)
    np.testing.assert_allclose(ours.captured_ratios, theirs.captured_ratios, rtol=1e-9)


def gap_of(model):
    """The percentage that a model names as what is proved."""
    return float(re.search(r"([0-9.]+) %", model.optimality())[1]) / 100


@pytest.mark.parametrize("lam", [300.0, 2100.0, 2225.0, [100.0, 300.0]])
def test_for_a_penalty_the_proof_is_about_the_penalised_objective(lam):
    """It was once said to be about loadings with as few non-zeros, by 1121 % of an objective near zero."""
    fitted = ExactSPCA(2, lam=lam, scale=True).fit(WDBC)
    model = SparsePCAModel.from_estimator(fitted)
    assert "penalised objective (variance less penalty)" in model.optimality()
    assert "as few non-zeros" not in model.optimality()
    captured = np.trace(fitted.components_ @ Z.T @ Z @ fitted.components_.T)
    expected = (fitted.upper_bound_ + fitted.objective_) / captured
    if fitted.stop_reason_ is StopReason.PROVED:
        assert expected == pytest.approx(0.0, abs=1e-12)
        assert model.optimality().startswith("It is proved that no loadings have a better penalised objective")
    else:
        assert expected - 1e-9 <= gap_of(model) <= expected + 1e-3
        assert gap_of(model) < 1.0


def test_for_a_penalty_what_is_proved_is_said_to_be():
    model = SparsePCAModel.from_estimator(ExactSPCA(1, lam=1e5, scale=True).fit(WDBC))
    assert model.optimality().endswith("no loadings have a better penalised objective (variance less penalty).")


def test_for_a_share_kept_the_proof_is_about_loadings_with_as_many_nonzeros():
    fitted = ExactSPCA(2, variance_kept=0.8, scale=True).fit(WDBC)
    told = SparsePCAModel.from_estimator(fitted).optimality()
    assert told.startswith("Loadings with as many non-zeros in all can capture ")
    assert told.endswith("Loadings with fewer non-zeros may still keep the share.")


def test_a_bound_by_products_does_not_contradict_what_dense_pca_was_found_to_capture():
    fitted = ExactSPCA(2, n_nonzero=5, scale=True, search="products").fit(WDBC)
    model = SparsePCAModel.from_estimator(fitted, dense_variance_ratio=[0.4, 0.2])
    proved = fitted.upper_bound_ / np.sum(Z**2)
    assert proved > 0.6
    share = float(re.search(r"no loadings capture more than ([0-9.]+) %", model.optimality())[1]) / 100
    assert share == pytest.approx(proved, abs=1e-3)
    assert "which was found to capture 60.0%" in model.optimality()
    assert "--search thorough" in model.optimality()
    close = SparsePCAModel.from_estimator(fitted, dense_variance_ratio=[proved, 0.0])
    assert "proved" not in close.optimality()
    assert "at most 0 %" not in close.optimality()


def test_what_dense_pca_captures_is_called_a_lower_bound_where_it_did_not_settle():
    fitted = ExactSPCA(2, n_nonzero=5, scale=True).fit(WDBC)
    told = SparsePCAModel.from_estimator(fitted, dense_variance_ratio=[0.4, 0.2])
    unsure = SparsePCAModel.from_estimator(fitted, dense_variance_ratio=[0.4, 0.2], dense_variance_settled=False)
    assert told.dense_in_words() == "60.0%"
    assert unsure.dense_in_words() == "at least 60.0%"
    assert SparsePCAModel.from_estimator(fitted).dense_in_words() is None
    assert ", captures 60.0% with" in summary(told)
    assert ", captures at least 60.0% with" in summary(unsure)
    assert "keep at most " in summary(unsure)


def test_a_number_and_its_noun_agree():
    assert (count(1, "row"), count(2, "row"), count(0, "row"), count(1200, "row")) == (
        "1 row",
        "2 rows",
        "0 rows",
        "1,200 rows",
    )
    one = SparsePCAModel.from_estimator(ExactSPCA(1, n_nonzero=1).fit(WDBC[:, :1]))
    assert "1 component of 1 feature," in repr(one)
    assert "of 569 rows of 1 site" in repr(one)
    page = report_html(one)
    for told in ("<b>1</b><span>site</span>", "<b>1</b><span>feature</span>", "<b>1</b><span>non-zero weight</span>"):
        assert told in page
    assert "1 of 1 do not" not in page
