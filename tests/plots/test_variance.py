from dataclasses import replace

import pytest

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.plots import chart_svg
from helpers.study_files import make_rows


@pytest.fixture(scope="module")
def model():
    made = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=3, scale=True, proof_seconds=0.0).fit(make_rows()))
    points = [{"nonzero": k, "nonzeros": 2 * k, "explained": 0.2 + 0.1 * k, "chosen": k == 2} for k in (1, 2, 4)]
    facts = {"dense_variance_ratio": [0.5, 0.3, 0.1], "path": {"rule": "knee", "dense": 0.8, "points": points}}
    return replace(made, facts={**made.facts, **facts})


def test_the_scree_goes_beyond_the_model_and_adds_up(model):
    drawn = chart_svg(model.plot_scree())
    for told in ("3 components, dense PCA: 90.0%", f"2 components, sparse: {model.captured_ratio:.1%}"):
        assert told in drawn
    assert "3 components, sparse" not in drawn


def test_the_path_has_its_points_the_model_and_dense_pca(model):
    drawn = chart_svg(model.plot_path())
    here = f"this model: {sum(model.nonzeros)} non-zeros"
    assert all(told in drawn for told in ("4 non-zeros (2 a component): 40.0%", "dense PCA 80.0%", here))


def test_a_model_without_a_path_says_how_to_have_one(model):
    with pytest.raises(ValueError, match="--path"):
        replace(model, facts={}).plot_path()
