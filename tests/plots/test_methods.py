import numpy as np
import pytest

from fedspca import ExactSPCA, SparsePCAModel
from helpers.study_files import frame, make_rows


@pytest.fixture(scope="module")
def model():
    table = frame(make_rows()).rename(columns={"f1": "<f1>"})
    return SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=3, scale=True, proof_seconds=0.0).fit(table))


def test_loadings_as_a_frame_have_names_and_only_features_with_a_weight(model):
    table = model.to_frame()
    assert list(table.columns) == ["component 1", "component 2"]
    used = model.components.any(axis=0)
    assert list(table.index) == [name for name, mine in zip(model.feature_names, used, strict=True) if mine]
    np.testing.assert_array_equal(table.to_numpy(), model.components[:, used].T)


def test_a_model_shows_what_it_is(model):
    told = repr(model)
    assert f"{model.captured_ratio:.1%} of the variance of 90 rows" in told
    assert f"1 ({model.captured_shares[0]:.1%})" in told
    assert "<f1>" in told
    assert "<f1>" not in model._repr_html_()
    assert "&lt;f1&gt;" in model._repr_html_()
    assert len(told.splitlines()) == 3
