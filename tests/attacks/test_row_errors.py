"""`row_errors` with directions that are not orthonormal: a clip at zero would make it a question about single rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from fedspca import InvalidQuery, Query, Site
from fedspca.linalg.operators import StandardisedRows
from fedspca.site import question
from fedspca.site.queries import QUERIES

D = 6


def rows(seed=0, n=40):
    return np.random.default_rng(seed).standard_normal((n, D))


def asked(directions, mean=None):
    frame = {"mean": np.zeros(D) if mean is None else mean, "scale": np.ones(D), "removed": np.zeros((D, 0))}
    return Query("row_errors", {**frame, "directions": directions})


def clipped_error_sums(self, basis):
    """‖a‖² − ‖aQ‖², cut off at zero: what the site computed before."""
    dense = self.rows.toarray() if sp.issparse(self.rows) else self.rows
    a = (dense - self.mean) / self.scale
    errors = np.maximum((a**2).sum(axis=1) - ((a @ basis) ** 2).sum(axis=1), 0.0)
    return float(errors.sum()), float(errors @ errors)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_without_the_defence_a_row_is_told_from_the_others(kind, monkeypatch):
    monkeypatch.setattr(question, "not_orthonormal", lambda *_: None)
    monkeypatch.setattr(StandardisedRows, "error_sums", clipped_error_sums)
    monkeypatch.setattr(np.linalg, "qr", lambda x: (x, None))
    table = rows()
    # ReLU(t² − (v·a)²): only rows with |v·a| < t count, so a threshold is bisected to any row's projection
    v = np.zeros((D, 1))
    v[0] = 1e3
    near = np.zeros((D, 0))
    one = Site("s", kind(table)).answer(asked(np.hstack([near, v]), mean=table[7] * (np.arange(D) == 0)))
    without = np.delete(table, 7, axis=0)
    other = Site("s", kind(without)).answer(asked(np.hstack([near, v]), mean=table[7] * (np.arange(D) == 0)))
    assert float(one["errors"]) > 0
    assert float(other["errors"]) == 0


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("directions", [10.0 * np.eye(D), np.ones((D, 2)) / np.sqrt(D), 1e200 * np.eye(D, 1)])
def test_directions_that_are_not_orthonormal_are_refused(kind, directions):
    with pytest.raises(InvalidQuery, match="orthonormal"):
        Site("s", kind(rows())).answer(asked(directions))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_errors_are_a_polynomial_of_the_rows_with_no_digit_lost(kind):
    """No clip, and no cancellation: a row that lies in the span but for 1e-9 has an error of 1e-18, not of 1e-12."""
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((D, D - 1)))[0]
    off = np.linalg.qr(np.hstack([basis, np.eye(D, 1)]))[0][:, -1]
    table = 1e3 * rows() @ basis @ basis.T + 1e-9 * off
    answer = Site("s", kind(table)).answer(asked(basis))
    assert np.isclose(float(answer["errors"]), 40 * 1e-18, rtol=1e-3)
    old = clipped_error_sums(StandardisedRows(table, np.zeros(D), np.ones(D)), basis)
    assert old[0] > 1e-12


def test_directions_are_normalised_at_the_site():
    """Within the tolerance a question's directions are made orthonormal, so that errors cannot become negative."""
    basis = np.eye(D, 2) * (1 + 4e-7)
    table = rows()
    answer = Site("s", table).answer(asked(basis))
    assert np.isclose(float(answer["errors"]), (table[:, 2:] ** 2).sum(), rtol=1e-14)
    assert QUERIES["row_errors"].orthonormal
