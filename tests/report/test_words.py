from dataclasses import replace

import numpy as np
import pytest

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.report import words


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((80, 1))
    return np.hstack([shared + 0.5 * rng.standard_normal((80, 3)), 0.5 * shared + rng.standard_normal((80, 3))])


def _model(rows, n_components):
    return SparsePCAModel.from_estimator(ExactSPCA(n_components, n_nonzero=3, scale=True, proof_seconds=0.0).fit(rows))


def test_one_component_is_told_in_the_singular(rows):
    assert "One component was found. It captures" in words.summary(_model(rows, 1))
    assert "The 2 components together capture" in words.summary(_model(rows, 2))


@pytest.mark.parametrize(("correlation", "said"), [(0.1, "hardly overlap"), (-0.5, "overlap in part")])
def test_the_reader_is_told_how_far_components_overlap(rows, correlation, said):
    fitted = _model(rows, 2)
    scores = np.array([[1.0, correlation], [correlation, 1.0]])
    told = words.overlap(replace(fitted, covariance=scores))
    assert f"{correlation:+.2f}" in told
    assert said in told


def test_the_unit_of_a_feature_stands_in_brackets_behind_its_name():
    names = ["height [cm]", "BMI [kg/m²] ", "x[0]y", "age", "[mm]", "a [b] [c]"]
    assert [words.unit(name) for name in names] == ["cm", "kg/m²", "", "", "mm", "c"]
