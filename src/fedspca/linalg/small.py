"""Small dense problems by direct calls to LAPACK: at these sizes numpy's wrappers cost more than the arithmetic."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Array = NDArray[np.float64]

_FAR_APART = 0.1  # if the sine between every column and the earlier ones is above this, squaring costs two digits
_SQUARINGS = 4  # twice, for the 256th power, or three times, for the 4096th
_VANISHED = 1e-150  # powers whose norm is below this are only rounding errors: dividing by it would make them overflow
_FEW_ROWS = 16  # with more rows, products take as long as the eigenproblems that they save
_LIFTS = (1e-13, 1e-11, 1e-9, 1e-7, 1e-5)  # shares of the largest diagonal entry
_APART = 1e-3  # if that sine is above this, squaring costs six digits


def largest_eigenpairs(a: Array, r: int) -> tuple[Array, Array]:
    """The r largest eigenvalues of a symmetric matrix, descending, and their eigenvectors."""
    m = len(a)
    r = min(r, m)
    if r == 0:
        return np.zeros(0), np.zeros((m, 0))
    values, vectors, found, _, info = lapack.dsyevr(a, range="I", il=m - r + 1, iu=m)
    if info or found < r:
        values, vectors = np.linalg.eigh(a)
        return values[::-1][:r], vectors[:, ::-1][:, :r]
    return values[:r][::-1], vectors[:, ::-1]


def eigenpairs(a: Array) -> tuple[Array, Array]:
    """All eigenvalues of a symmetric matrix, ascending, and their eigenvectors."""
    values, vectors, info = lapack.dsyevd(a)
    return (values, vectors) if not info else np.linalg.eigh(a)


def stacked_eigenpairs(a: Array) -> tuple[Array, Array]:
    """All eigenvalues of each of a stack of symmetric matrices (m, n, n), ascending, and their eigenvectors.

    On very few matrices LAPACK's fast method does not converge. The slow one then treats each by itself.
    """
    try:
        values, vectors = np.linalg.eigh(a)
    except np.linalg.LinAlgError:
        pairs = [_slow_eigenpairs(matrix) for matrix in a]
        return np.array([each for each, _ in pairs]), np.array([each for _, each in pairs])
    return values, vectors


def powered(a: Array) -> Array:
    """A vector (m, k) near the leading eigenvector of each of a stack of matrices (m, k, k), by repeated squaring.

    The matrices are positive semidefinite, or products of two that are. Products of many small matrices take a tenth of
    the time of their eigenproblems. An eigenvalue of 0.94 times the largest leaves an error of 1e-7; if k is small, one
    of 0.996 times the largest does.
    """
    scalings = 3 if a.shape[1] <= _FEW_ROWS else 2
    for _ in range(scalings):  # between two scalings nothing overflows, and nothing that counts underflows
        a = a / np.maximum(np.sqrt(np.einsum("mij,mij->m", a, a)), _VANISHED)[:, None, None]
        for _ in range(_SQUARINGS):
            a = a @ a
    heaviest = np.argmax(np.einsum("mii->mi", a), axis=1)
    return np.asarray(a[np.arange(len(a)), :, heaviest])


def _slow_eigenpairs(a: Array) -> tuple[Array, Array]:
    values, vectors, info = lapack.dsyev(a, lower=0)
    if info:
        raise np.linalg.LinAlgError("The eigenvalues of a symmetric matrix did not converge.")
    return values, vectors


def positive_factor(a: Array) -> Array:
    """The upper triangular R with ``a = R' R``, a symmetric and positive definite up to rounding.

    If rounding has made an eigenvalue negative, the diagonal is increased until all are positive.
    """
    factor, info = lapack.dpotrf(a)
    for lift in _LIFTS:
        if not info:
            break
        factor, info = lapack.dpotrf(a + lift * float(a.diagonal().max()) * np.eye(len(a)))
    return np.asarray(factor)


def solve_positive(a: Array, b: Array) -> Array | None:
    """The x with ``a x = b`` for a symmetric a; None if a is not positive definite."""
    _, x, info = lapack.dposv(a, b)
    return None if info else np.asarray(x)


def solve_factored(factor: Array, b: Array) -> Array:
    """The x with ``R' R x = b``."""
    return np.asarray(lapack.dpotrs(factor, b)[0])


def inverse_cholesky(a: Array) -> Array:
    """``R^-1``, upper triangular, with ``a = R' R`` and a positive diagonal; a symmetric and positive definite."""
    factor, info = lapack.dpotrf(a, clean=1)
    if info:
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return np.asarray(lapack.dtrtri(factor)[0])


def cholesky_qr(x: Array, *, rough: bool = False) -> Array | None:
    """Q of ``x = Q R`` with a positive diagonal, by matrix products; None if columns are (nearly) dependent.

    A Cholesky factorisation of ``x' x``, done twice. The first one squares the condition number and so loses digits;
    the second one restores them. The second is left out if the loss is small: two digits, or six if the result may be
    ``rough``. For tall matrices this is several times faster than Householder reflections, which pass over x for each
    column.
    """
    if x.shape[1] == 0:
        return x
    for _ in range(2):
        gram = x.T @ x
        norms = np.sqrt(gram.diagonal())
        if not np.all(norms > 1e-150):
            return None
        factor, info = lapack.dpotrf(gram / norms / norms[:, None], clean=1)
        if info or float(factor.diagonal().min()) < 1e-5:
            return None
        inverse, info = lapack.dtrtri(factor)
        x = x @ (inverse / norms[:, None])
        if float(factor.diagonal().min()) > (_APART if rough else _FAR_APART):
            break
    return x
