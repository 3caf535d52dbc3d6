"""How many components and how sparse: planted numbers are found, chance is called chance, and it is said in words."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import GridSearchCV

from fedspca import ExactSPCA, Selection
from fedspca.solvers.folds.crossval import Curve


def planted(strengths=(6.0, 4.0), n=300, d=40, k=6, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    for j, strength in enumerate(strengths):
        rows[:, k * j : k * j + k] += np.sqrt(strength / k) * rng.standard_normal((n, 1))
    return rows


@pytest.fixture(scope="module")
def fitted():
    return ExactSPCA("auto", n_nonzero="auto", scale=True, folds=6).fit(planted(), sites=np.arange(300) % 3)


def test_planted_components_and_features_are_found(fitted):
    assert fitted.n_components_ == 2
    found = fitted.selection_
    assert isinstance(found, Selection)
    assert set(found.components.values()) == {2}
    assert 4 <= found.n_nonzero <= 8
    assert np.count_nonzero(fitted.components_, axis=1).tolist() == [found.n_nonzero] * 2
    assert fitted.get_params()["n_components"] == "auto"
    assert fitted.selection_frequency_.shape == (2, 40)


def test_it_is_said_in_words_and_as_a_table(fitted):
    words = " ".join(fitted.selection_.in_words())
    assert "Components: 2" in words
    assert "All three that decide agree (Marchenko–Pastur, parallel analysis, cross-validation)." in words
    assert "within one standard error" in words
    frame = fitted.selection_.to_frame()
    assert frame[frame.question == "components"].chosen.sum() == 1
    assert frame[(frame.question == "non-zeros") & frame.chosen].setting.item() == fitted.selection_.n_nonzero
    plain = fitted.selection_.to_plain()
    assert plain["components"]["parallel analysis"] == 2
    assert len(plain["eigenvalues"]) == len(plain["null_high"])


def test_it_is_drawn(fitted):
    pytest.importorskip("altair")
    chance, scores = fitted.selection_.plot().to_dict()["hconcat"]
    band, line, *_ = chance["layer"]
    assert band["encoding"]["y2"]["field"] == "high"
    assert line["encoding"]["y"]["title"] == "variance"
    marked = [row["features"] for row in scores["data"]["values"] if row["here"]]
    assert marked == [fitted.selection_.n_nonzero]


def test_chance_has_no_component():
    rows = np.random.default_rng(1).standard_normal((200, 30))
    with pytest.raises(ValueError, match=r"No component stands out of chance.*Give n_components"):
        ExactSPCA("auto", n_nonzero=3, scale=True).fit(rows)
    found = ExactSPCA("auto", scale=True).choose(rows)
    assert (found.n_components, found.n_nonzero) == (0, None)


def test_no_more_are_recommended_than_predict_rows_left_out():
    """Ten correlated features: the tests of eigenvalues count eight or nine, and with those Q² falls below zero."""
    found = ExactSPCA("auto", n_nonzero=3, scale=True, folds=10).fit(load_diabetes().data).selection_
    assert sorted(found.components.values())[-2] >= 8
    assert found.n_components == found.components["cross-validation"] <= 4
    assert "They do not agree" in " ".join(found.in_words())


def test_a_number_that_was_given_is_kept():
    found = ExactSPCA(1, scale=True, folds=4).choose(planted(n=150))
    assert found.n_components == 1
    model = ExactSPCA(1, n_nonzero="auto", scale=True, folds=4).fit(planted(n=150))
    assert model.components_.shape == (1, 40)
    model.set_params(n_nonzero=3).fit(planted(n=150))
    assert not hasattr(model, "selection_")


def test_a_grid_search_works_beside():
    search = GridSearchCV(ExactSPCA(1, scale=True), {"n_nonzero": [2, 6, 20]}, cv=3).fit(planted(n=150))
    assert search.best_params_["n_nonzero"] in (6, 20)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_components": "auto", "search": "products"}, "needs the whole covariance"),
        ({"n_components": "some"}, "'n_components' parameter"),
        ({"n_nonzero": "some"}, "'n_nonzero' parameter"),
    ],
)
def test_auto_that_cannot_be_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        ExactSPCA(**settings).fit(planted(n=60))


def test_a_path_and_a_covariance_need_numbers():
    with pytest.raises(ValueError, match="needs a number of components"):
        ExactSPCA("auto").path(planted(n=60), n_nonzero=[2, 3])
    with pytest.raises(ValueError, match=r"'n_components' .* must be a number: 'auto' needs rows"):
        ExactSPCA("auto").fit_covariance(np.eye(4))


def test_every_number_of_few_features_is_within_reach_and_the_words_say_what_was_tried():
    """Of wine's 13 features no more than 4 were tried, and 4 was called the best."""
    found = ExactSPCA(2, n_nonzero="auto", scale=True, folds=10).fit(load_wine().data).selection_
    curve = found.by_nonzeros
    assert curve.grid[-1] == found.n_features == 13
    words = " ".join(found.in_words())
    assert f"Tried: {', '.join(map(str, curve.grid))}." in words
    assert "may predict better" not in words
    assert found.nonzeros["stability"] <= 6  # of more than half, any rows select most


def test_the_best_of_what_was_tried_is_said_to_be_at_its_end():
    found = ExactSPCA(1, n_nonzero="auto", scale=True, folds=4).fit(planted(n=150)).selection_
    wide = replace(found, n_features=80)
    last = Curve((2, 3, 4), np.array([[0.1, 0.2, 0.9], [0.1, 0.3, 0.9]]))
    told = " ".join(replace(wide, by_nonzeros=last, n_nonzero=4, recurrence=np.ones(3)).in_words())
    assert "Tried: 2, 3, 4. The best is the largest of them: more features may predict better." in told
    told = " ".join(replace(wide, by_nonzeros=last, n_nonzero=4, recurrence=np.ones(3), n_features=4).in_words())
    assert "The best is all features" in told
    assert "more than half of the 4 features" in told
    assert "again, on average" not in told


def test_of_all_features_there_are_no_more():
    found = ExactSPCA(1, n_nonzero="auto", scale=True, folds=4).fit(planted(n=150)).selection_
    curve = Curve((2, 3, 4), np.array([[0.1, 0.2, 0.9], [0.1, 0.3, 0.9]]))
    told = replace(found, by_nonzeros=curve, recurrence=np.ones(3), n_features=4, n_nonzero=2).in_words()
    assert "Tried: 2, 3, 4." in told


@pytest.mark.parametrize("r", [9, 300])
def test_more_components_than_there_can_be_are_refused_as_by_a_fit(r):
    rows = planted(n=150, d=8, k=3)
    for estimator in (ExactSPCA(r), ExactSPCA(r, n_nonzero="auto")):
        with pytest.raises(ValueError, match=rf"'n_components' .* at most .* = min\(150, 8\). Got {r} instead"):
            estimator.choose(rows)
    with pytest.raises(ValueError, match=r"at most min\(n_samples, n_features\)"):
        ExactSPCA(r, n_nonzero="auto").fit(rows)


def test_a_count_at_its_limit_and_one_below_chance_are_explained(fitted):
    found = fitted.selection_
    told = " ".join(found.in_words())
    assert "there may be more" not in told
    assert "Parallel analysis compares" not in told
    most = dict.fromkeys(found.components, 10)
    assert "where a method says 10, there may be more" in " ".join(replace(found, components=most).in_words())
    below = replace(found, eigenvalues=found.null.high * 0.9)
    assert "Parallel analysis compares each component with chance after the earlier ones" in " ".join(below.in_words())


def test_a_number_by_stability_is_not_said_to_be_the_fewest_that_predict():
    found = ExactSPCA(1, n_nonzero="auto", scale=True, folds=4).fit(planted(n=150)).selection_
    other = next(k for k in found.by_nonzeros.grid if k != found.by_nonzeros.choice)
    told = " ".join(replace(found, n_nonzero=other).in_words())
    assert f"Features a component: {other}, by stability. By cross-validation: {found.by_nonzeros.choice}," in told
