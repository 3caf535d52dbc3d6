import numpy as np
import pytest

from fedspca.linalg import nystrom


@pytest.fixture
def model():
    """A model of a known S from four questions, the last of which repeats columns of the first."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((80, 60)) * np.linspace(3.0, 0.3, 60)
    s = a.T @ a
    asked = [np.linalg.qr(rng.standard_normal((60, 7)))[0]]
    asked += [np.linalg.qr(s @ asked[0])[0], np.linalg.qr(rng.standard_normal((60, 4)))[0]]
    asked.append(asked[0][:, :3])
    model = nystrom.empty(60, float(np.trace(s)))
    for columns in asked:
        model = nystrom.expand(model, columns, s @ columns)
    return s, np.hstack(asked), model


def test_the_model_agrees_with_s_on_all_that_was_asked_and_never_exceeds_it(model):
    s, asked, model = model
    assert np.allclose(model @ asked, s @ asked)
    assert np.linalg.eigvalsh(s - model @ np.eye(60)).min() > -1e-9 * np.linalg.norm(s, 2)
    assert model.rank == 18  # what was asked twice teaches nothing


def test_the_predictor_adds_the_missing_trace_where_nothing_was_asked(model):
    s, asked, model = model
    basis = np.linalg.svd(asked, full_matrices=False)[0][:, :18]
    known = s @ basis @ np.linalg.solve(basis.T @ s @ basis, basis.T @ s)
    tau = (np.trace(s) - np.trace(known)) / (60 - 18)
    expected = known + tau * (np.eye(60) - basis @ basis.T)
    whole = nystrom.predictor(model)
    assert np.allclose(whole @ np.eye(60) + whole.shift * np.eye(60), expected)
    rows = np.arange(3, 60, 4)
    part = nystrom.predictor(model, rows)
    assert np.allclose(part @ np.eye(15) + part.shift * np.eye(15), expected[np.ix_(rows, rows)])
    assert np.allclose(nystrom.majoriser(model, rows) @ np.eye(15), known[np.ix_(rows, rows)])


def test_the_leading_eigenvectors_are_those_of_the_model(model):
    _, _, model = model
    values, vectors = nystrom.leading(model, 3)
    assert np.allclose(values, np.linalg.eigvalsh(model @ np.eye(60))[::-1][:3])
    assert np.allclose(model @ vectors, vectors * values)
