"""Models that several files of tests use."""

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.model import SparsePCAModel
from helpers.study_files import frame, make_rows


@pytest.fixture(scope="module")
def fitted():
    """Two components of three sites' rows, with names."""
    rows = frame(make_rows())
    return ExactSPCA(2, n_nonzero=3, scale=True).fit(rows, sites=np.arange(len(rows)) % 3)


@pytest.fixture
def saved(fitted, tmp_path):
    """The folder of its model."""
    SparsePCAModel.from_estimator(fitted, note="größe").save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def oblique():
    """Components that are neither orthogonal nor of length one."""
    rng = np.random.default_rng(1)
    components = rng.standard_normal((3, 6))
    components[0, :3] = 0.0
    spread = rng.standard_normal((3, 3))
    return SparsePCAModel(
        components=components,
        mean=rng.standard_normal(6),
        scale=rng.uniform(0.5, 2.0, 6),
        explained_variance=np.array([3.0, 2.0, 1.0]),
        explained_variance_ratio=np.array([0.3, 0.2, 0.1]),
        missing_share=np.zeros(6),
        covariance=spread @ spread.T,
        feature_names=tuple("abcdef"),
        n_samples=20,
        n_sites=2,
        total_variance=10.0,
    )
