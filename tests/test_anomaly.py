from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from fedspca import AnomalyDetector, ExactSPCA, LocalFederation, Site, SparsePCAModel, secure_federation
from fedspca.anomaly import _squared_length, huber, huber_moments


@pytest.fixture
def detector(rows):
    estimator = ExactSPCA(2, n_nonzero=4, scale=True)
    return AnomalyDetector(estimator, passes=1).fit(rows, sites=np.arange(60) % 3)


def parts_by_brute_force(rows, model):
    a = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    scores = a @ model.components.T
    t2 = np.einsum("ij,jk,ik->i", scores, np.linalg.inv(np.cov(scores.T)), scores)
    return a, scores, t2


def test_the_score_is_t_squared_and_hubers_function_of_regression_residuals(rows, detector):
    rows = rows.copy()
    a, scores, t2 = parts_by_brute_force(rows, detector.model_)
    left = a - scores @ np.linalg.lstsq(scores, a, rcond=None)[0]
    z = np.abs(left) / left.std(axis=0, ddof=1)
    q = np.where(z < 1.345, z**2, 2 * 1.345 * z - 1.345**2).sum(axis=1)
    parts = detector.anomaly_parts(rows)
    assert np.allclose(parts.t2, t2, rtol=1e-8)
    assert np.allclose(parts.q, q, rtol=1e-8)
    assert np.allclose(-detector.score_samples(rows), t2 + q, rtol=1e-8)


def test_hubers_moments_are_those_of_normal_draws():
    drawn = huber(np.random.default_rng(0).standard_normal(400_000))
    mean, variance = huber_moments()
    assert mean == pytest.approx(drawn.mean(), abs=5e-3)
    assert variance == pytest.approx(drawn.var(), abs=2e-2)


def test_the_spread_of_squared_lengths_is_that_of_the_models_covariance(detector):
    model = detector.model_
    basis = np.linalg.qr(model.components.T)[0]
    whole = model.patterns.T @ model.covariance @ model.patterns + np.diag(model.uniqueness)
    for given in (basis, np.zeros((12, 0))):
        apart = np.eye(12) - given @ given.T
        left = apart @ whole @ apart
        mean, relative = _squared_length(model, given)
        assert mean == pytest.approx(np.trace(left))
        assert relative == pytest.approx(2 * np.sum(left**2) / np.trace(left) ** 2)


def test_a_model_of_an_older_version_is_scored_by_its_reconstruction_error_and_says_so(rows, detector, tmp_path):
    replace(detector.model_, patterns=None, uniqueness=None).save(tmp_path / "old")
    assert not (tmp_path / "old" / "patterns.npy").exists()
    old = SparsePCAModel.load(tmp_path / "old")
    a, _, t2 = parts_by_brute_force(rows, old)
    q = np.sum((a - a @ old.components.T @ np.linalg.pinv(old.components.T)) ** 2, axis=1)
    with pytest.warns(UserWarning, match="Fit it again for the better score"):
        assert np.allclose(-old.score_samples(rows), t2 + q / (q.mean() / 10), rtol=1e-8)
    assert old.threshold(0.99) < old.threshold(0.9) < 0


def test_a_feature_without_any_weight_is_predicted_from_the_scores(rows):
    """A feature that no component names may still follow them: a value against its pattern is an anomaly."""
    twin = rows[:, 2] + 0.05 * np.random.default_rng(3).standard_normal(60)
    model = AnomalyDetector(ExactSPCA(1, n_nonzero=1)).fit(np.column_stack([2 * rows[:, 2], twin])).model_
    assert model.components[0, 1] == 0
    assert model.uniqueness[1] < 0.02 * np.var(twin)
    ordinary, against = np.array([[2.0, 1.0], [2.0, -1.0]]) * rows[:, 2].std() + rows[:, 2].mean() * np.array([2, 1])
    assert list(model.predict([ordinary, against])) == [1, -1]
    assert np.allclose(*model.reconstruction_errors([ordinary, against]), rtol=0.5)  # the plain error hardly tells them


def test_features_that_never_varied_or_were_left_out(rows):
    table = np.column_stack([rows, np.full(60, 7.0)])
    with pytest.warns(UserWarning, match="x12"):
        model = AnomalyDetector(ExactSPCA(2, n_nonzero=4, scale=True)).fit(table).model_
    plain = AnomalyDetector(ExactSPCA(2, n_nonzero=4, scale=True)).fit(rows).model_
    assert np.allclose(model.score_samples(table), plain.score_samples(rows), rtol=1e-6)
    assert model.threshold() == pytest.approx(plain.threshold(), rel=1e-6)
    other = table[:1].copy()
    other[0, 12] = 57.0
    assert model.blamed(other, top=1)[0][0][0] == "x12"
    feature = int(np.flatnonzero((plain.components == 0).all(axis=0))[0])
    unused, moved = replace(plain, facts={**plain.facts, "left_out_features": [feature]}), rows.copy()
    moved[:, feature] += 1e3
    assert np.allclose(unused.score_samples(moved), unused.score_samples(rows))
    assert not np.allclose(plain.score_samples(moved), plain.score_samples(rows))


def test_contributions_add_up_and_name_the_culprit(rows, detector):
    rows[7, 9] += 25.0
    parts = detector.model_.contributions(rows)
    assert np.allclose(parts.sum(axis=1), -detector.score_samples(rows))
    (first, *_), *_ = detector.model_.blamed(rows[7:8])
    assert first[0] == "x9"
    assert first[1] > 0.5
    assert detector.model_.predict(rows)[7] == -1


@pytest.mark.parametrize("heavy", [False, True])
def test_the_threshold_leaves_about_its_share_of_ordinary_rows(heavy):
    table = alike(5, heavy=heavy)
    for estimator in (ExactSPCA(2, n_nonzero=4), None):
        model = AnomalyDetector(estimator).fit(table[:2000]).model_
        for level in (0.9, 0.99):
            assert abs(np.mean(model.predict(table[2000:], level) > 0) - level) < (0.06 if heavy else 0.02)
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


def alike(seed, n=4000, heavy=False):
    """Rows with two components among twelve features, normal or with heavy tails."""
    generator = np.random.default_rng(seed)
    loadings = np.zeros((2, 12))
    loadings[0, :4], loadings[1, 4:8] = 0.5, 0.5
    table = generator.standard_normal((n, 2)) * [5.0, 3.0] @ loadings + 0.5 * generator.standard_normal((n, 12))
    return table * (np.sqrt(5 / generator.chisquare(5, n))[:, None] if heavy else 1.0)


def test_anomalies_that_are_alike_are_trimmed_by_their_length():
    """They draw a component to themselves, and T² divides by the variance that they brought."""
    table, target = load_breast_cancer(return_X_y=True)
    benign, malignant = table[target == 1], table[target == 0]
    mixed = np.vstack([benign[:240], malignant[:24]])
    once, twice = (AnomalyDetector(passes=p).fit(mixed) for p in (1, 2))
    kept = once.model_.keeps(mixed)
    assert np.mean(kept[:240]) > 0.95
    assert np.mean(kept[240:]) < 0.75
    # by the score itself fewer would go
    assert np.mean(kept[240:]) < np.mean(once.model_.predict(mixed[240:], 0.9) > 0)
    assert twice.n_kept_ == [264, np.count_nonzero(kept)]
    assert twice.model_.facts["kept_share"] == twice.n_kept_[1] / 264
    new, label = np.vstack([benign[240:], malignant[24:]]), np.r_[np.zeros(117), np.ones(188)]
    first, second = (roc_auc_score(label, -detector.score_samples(new)) for detector in (once, twice))
    assert second > first + 0.02


def test_the_threshold_of_trimmed_rows_allows_for_what_was_cut_off():
    table = alike(6, heavy=True)
    model = AnomalyDetector(passes=2).fit(table[:2000]).model_
    told = replace(model, facts={name: fact for name, fact in model.facts.items() if name != "kept_share"})
    marked, naive = (np.mean(m.predict(table[2000:], 0.9) < 0) for m in (model, told))
    assert abs(marked - 0.1) < abs(naive - 0.1)
    with pytest.raises(ValueError, match="at most 1"):
        AnomalyDetector().fit_federation(LocalFederation([Site("a", table)]), kept_share=1.5)


def test_masked_sums_give_the_same_detector(rows):
    sites = [Site(name, rows[at::3]) for at, name in enumerate("abc")]
    plain, masked = (AnomalyDetector(ExactSPCA(2, n_nonzero=4, scale=True)) for _ in range(2))
    plain.fit_federation(LocalFederation(sites))
    masked.fit_federation(secure_federation(sites))
    for name in ("patterns", "uniqueness"):
        assert np.allclose(getattr(masked.model_, name), getattr(plain.model_, name), atol=1e-7)
    assert np.allclose(masked.score_samples(rows), plain.score_samples(rows), rtol=1e-6)
    assert masked.offset_ == pytest.approx(plain.offset_, rel=1e-6)
