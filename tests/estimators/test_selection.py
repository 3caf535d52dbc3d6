"""How many components and how sparse: planted numbers are found, chance is called chance, and it is said in words."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV

from fedspca import ExactSPCA, Selection


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
    assert "All three agree." in words
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
