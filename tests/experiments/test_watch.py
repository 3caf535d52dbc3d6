import numpy as np
import pytest

from fedspca import FASPCA
from fedspca.experiments.watch import SimulatedFederation
from fedspca.metrics import alignment
from helpers.experiments import OWNERS


def test_watching_changes_nothing_and_sees_the_papers_measure(rows):
    seen = FASPCA(2, lam=5.0).fit_federation(federation := SimulatedFederation(rows, OWNERS, watch=True))
    plain = FASPCA(2, lam=5.0).fit(rows, sites=OWNERS)
    np.testing.assert_array_equal(seen.components_, plain.components_)
    asked = [record for record in seen.history_ if record.query == "faspca_step"]
    assert len(federation.alignments) == len(asked)
    assert np.mean(federation.alignments[-1]) == pytest.approx(asked[-1].alignment, abs=1e-6)
    now = alignment(np.stack([site._state.w.T for site in federation.sites]))
    assert now == pytest.approx(np.mean(federation.alignments[-1]))


def test_rows_taken_as_centred_are_left_as_they_are(rows):
    rows = rows - rows.mean(axis=0) + 0.2
    found = FASPCA(2, lam=5.0).fit_federation(SimulatedFederation(rows, OWNERS, centred=True))
    np.testing.assert_array_equal(found.mean_, 0)
    # rows and their mirror images have the mean 0 and twice the products
    mirrored = FASPCA(2, lam=10.0).fit(np.vstack([rows, -rows]), sites=np.tile(OWNERS, 2))
    np.testing.assert_allclose(np.abs(found.components_), np.abs(mirrored.components_), atol=1e-4)
