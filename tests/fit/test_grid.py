"""A path shows no bounds, and takes no time for them."""

import numpy as np
import pytest

from fedspca import ExactSPCA
from fedspca.federation import LocalFederation
from fedspca.fit import FitSettings
from fedspca.fit.grid import follow_path
from fedspca.linalg.cardinality import proof
from fedspca.site import Site
from helpers.study_files import make_rows


@pytest.mark.parametrize("components", [1, 2, 3])
def test_a_path_has_the_loadings_of_a_fit_and_spends_no_time_on_a_proof(components, monkeypatch):
    federation, grid = LocalFederation([Site("a", make_rows(60))]), [1, 2, 4, 8]
    usual = ExactSPCA(components, scale=True).path_federation(federation, n_nonzero=grid)
    bounded = []
    monkeypatch.setattr(proof, "_several", lambda *given: bounded.append(given))
    points = follow_path(FitSettings(components=components), federation, grid)["points"]
    assert bounded == []
    np.testing.assert_array_equal(
        [point["explained"] for point in points], [model.explained_variance_ratio for model in usual]
    )
