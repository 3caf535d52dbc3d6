import numpy as np
import pytest

from fedspca.linalg.small import (
    cholesky_qr,
    eigenpairs,
    inverse_cholesky,
    largest_eigenpairs,
    positive_factor,
    powered,
    solve_factored,
    solve_positive,
    stacked_eigenpairs,
)


@pytest.fixture
def positive():
    x = np.random.default_rng(0).standard_normal((40, 12))
    return x.T @ x


@pytest.mark.parametrize("r", [0, 1, 5, 12, 20])
def test_the_largest_eigenpairs_are_those_of_a_full_decomposition(positive, r):
    values, vectors = largest_eigenpairs(positive, r)
    assert np.allclose(values, np.linalg.eigvalsh(positive)[::-1][:r])
    assert np.allclose(positive @ vectors, vectors * values)
    assert np.allclose(vectors.T @ vectors, np.eye(min(r, 12)))


def test_eigenpairs_and_solutions_reproduce_the_matrix(positive):
    values, vectors = eigenpairs(positive)
    assert np.allclose((vectors * values) @ vectors.T, positive)
    b = np.arange(12.0)
    assert np.allclose(positive @ solve_factored(positive_factor(positive), b), b)


def test_what_rounding_has_made_indefinite_is_factored_all_the_same(positive):
    singular = positive.copy()
    singular[-1], singular[:, -1] = singular[0], singular[:, 0]
    singular[-1, -1] = singular[0, 0] * (1.0 - 1e-14)
    b = singular @ np.arange(12.0)
    assert np.allclose(singular @ solve_factored(positive_factor(singular), b), b)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e-8])
def test_cholesky_qr_is_orthonormal_to_rounding_at_any_scale(condition):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 6)) + condition * rng.standard_normal((300, 1))
    q = cholesky_qr(x)
    assert np.abs(q.T @ q - np.eye(6)).max() < 1e-13
    upper = q.T @ x
    assert np.allclose(q @ upper, x)
    assert np.abs(np.tril(upper, -1)).max() < 1e-10 * np.abs(x).max() * 300
    assert np.all(np.diag(upper) > 0)


def test_cholesky_qr_keeps_the_zeros_of_an_orthonormal_start():
    w = np.zeros((50, 2))
    w[:3, 0], w[5:9, 1] = 1 / np.sqrt(3), 0.5
    q = cholesky_qr(np.hstack([w, np.random.default_rng(2).standard_normal((50, 3))]))
    assert np.array_equal(q[:, :2] != 0, w != 0)


def test_dependent_columns_are_left_to_a_safer_method():
    x = np.random.default_rng(3).standard_normal((30, 2))
    assert cholesky_qr(np.hstack([x, x[:, :1]])) is None
    assert cholesky_qr(np.zeros((30, 2))) is None
    assert cholesky_qr(x[:, :0]).shape == (30, 0)


def test_an_inverse_cholesky_factor_whitens_and_says_when_it_cannot(positive):
    inverse = inverse_cholesky(positive)
    assert np.allclose(inverse.T @ positive @ inverse, np.eye(12))
    assert np.all(np.tril(inverse, -1) == 0.0)
    assert np.all(np.diag(inverse) > 0.0)
    with pytest.raises(np.linalg.LinAlgError):
        inverse_cholesky(-positive)


def test_a_stack_has_its_eigenpairs_where_the_fast_method_does_not_converge(monkeypatch):
    def fails(_):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    x = np.random.default_rng(0).standard_normal((4, 7, 7))
    a = x + x.transpose(0, 2, 1)
    fast = stacked_eigenpairs(a)
    monkeypatch.setattr(np.linalg, "eigh", fails)
    values, vectors = stacked_eigenpairs(a)
    assert np.allclose(values, fast[0], atol=1e-12)
    assert np.allclose((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1), a, atol=1e-12)


def test_powers_find_leading_eigenvectors_of_matrices_of_any_size_and_of_products():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((50, 6, 4))
    x[:, :, 0] *= 3.0
    a = x @ x.transpose(0, 2, 1) * 10.0 ** rng.integers(-100, 100, (50, 1, 1))
    values, vectors = np.linalg.eigh(a)
    clear = values[:, -2] < 0.9 * values[:, -1]
    assert clear.sum() > 30
    found = powered(a)
    found /= np.linalg.norm(found, axis=1)[:, None]
    assert np.abs(np.einsum("mk,mk->m", found, vectors[:, :, -1]))[clear] == pytest.approx(1.0, abs=1e-10)
    metric = np.diag(np.arange(1.0, 7.0))
    product = np.linalg.solve(metric, a[clear])
    found = powered(product)
    image = (product @ found[:, :, None])[:, :, 0]
    ratio = np.einsum("mk,mk->m", found, image) / np.einsum("mk,mk->m", found, found)
    largest = np.abs(np.linalg.eigvals(product)).max(axis=1)
    assert ratio / largest == pytest.approx(1.0, abs=1e-2)
    assert not powered(np.zeros((3, 2, 2))).any()


def test_powers_that_vanish_do_not_overflow():
    # what a projection leaves of a block inside the span is rounding errors, whose powers fall to 1e-240
    nothing = np.array([[[0.0, 1.0], [1e-30, 0.0]]])
    assert np.abs(powered(nothing)).max() < 1.0  # a warning of numpy's is an error in the tests


def test_systems_that_are_not_positive_definite_have_no_solution(positive):
    b = np.arange(12.0)
    assert np.allclose(positive @ solve_positive(positive, b), b)
    assert solve_positive(positive - 1e3 * np.eye(12), b) is None
