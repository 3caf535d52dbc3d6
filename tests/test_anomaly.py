import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from fedspca import AnomalyDetector, ExactSPCA, SparsePCAModel


@pytest.fixture
def detector(rows):
    estimator = ExactSPCA(2, n_nonzero=4, scale=True)
    return AnomalyDetector(estimator, passes=1).fit(rows, sites=np.arange(60) % 3)


def test_the_score_is_t_squared_and_the_residual_by_brute_force(rows, detector):
    a = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    w = detector.model_.components.T
    scores = a @ w
    t2 = np.einsum("ij,jk,ik->i", scores, np.linalg.inv(np.cov(scores.T)), scores)
    q = np.sum((a - a @ w @ np.linalg.pinv(w)) ** 2, axis=1)
    assert np.allclose(-detector.score_samples(rows), t2 + q / (q.mean() / 10), rtol=1e-8)


def test_contributions_add_up_and_name_the_culprit(rows, detector):
    rows[7, 9] += 25.0
    parts = detector.model_.contributions(rows)
    assert np.allclose(parts.sum(axis=1), -detector.score_samples(rows))
    (first, *_), *_ = detector.model_.blamed(rows[7:8])
    assert first[0] == "x9"
    assert first[1] > 0.5
    assert detector.model_.predict(rows)[7] == -1


def test_the_threshold_leaves_about_its_share_of_ordinary_rows():
    generator = np.random.default_rng(5)
    loadings = np.zeros((2, 12))
    loadings[0, :4], loadings[1, 4:8] = 0.5, 0.5
    table = generator.standard_normal((4000, 2)) * [5.0, 3.0] @ loadings + 0.5 * generator.standard_normal((4000, 12))
    model = AnomalyDetector(ExactSPCA(2, n_nonzero=4), passes=1).fit(table[:2000]).model_
    for level in (0.9, 0.99):
        assert abs(np.mean(model.predict(table[2000:], level) > 0) - level) < 0.02
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.threshold(1.0)


def test_a_model_that_was_saved_scores_alike_and_one_without_errors_says_so(rows, detector, tmp_path):
    detector.model_.save(tmp_path / "m")
    assert np.array_equal(SparsePCAModel.load(tmp_path / "m").score_samples(rows), detector.score_samples(rows))
    bare = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=4).fit(rows))
    with pytest.raises(ValueError, match="does not say how large the errors"):
        bare.score_samples(rows)


def test_trimming_makes_up_for_contamination(rows):
    generator = np.random.default_rng(8)
    strange = 3 * generator.standard_normal((7, 12)) * np.linspace(0.5, 2.0, 12) + np.arange(12) + 4
    table, label = np.vstack([rows, strange]), np.r_[np.zeros(60), np.ones(7)]
    sites = np.arange(67) % 3
    estimator = ExactSPCA(2, n_nonzero=4, scale=True)
    once, trimmed = (AnomalyDetector(estimator, passes=p).fit(table, sites=sites) for p in (1, 2))
    assert roc_auc_score(label, -trimmed.score_samples(table)) >= roc_auc_score(label, -once.score_samples(table))
    assert np.sum(trimmed.predict(strange) < 0) > np.sum(once.predict(strange) < 0)
    assert trimmed.n_kept_[0] == 67 > trimmed.n_kept_[-1] >= 50
