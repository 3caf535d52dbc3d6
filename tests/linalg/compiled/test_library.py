"""The shared library: it is found, it can be left out, and it solves small dense problems as LAPACK does."""

import ctypes
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedspca.linalg.compiled import library as loading
from fedspca.linalg.compiled.library import Doubles, Integers, Singles, address, checked, library, numpy_only

compiled = pytest.mark.skipif(library() is None, reason="nothing was compiled here")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler here")
@pytest.mark.skipif(os.environ.get("FEDSPCA_COMPILED") == "0", reason="compiled code was left out")
def test_where_there_is_a_compiler_the_library_is_there():
    """Without this, a build that fails would only skip the tests of compiled code."""
    assert library() is not None


def test_within_numpy_only_nothing_is_compiled():
    with numpy_only(), numpy_only():
        assert library() is None
    assert (library() is None) == (loading._load() is None)


@pytest.mark.parametrize(("value", "there"), [("0", False), ("1", True)])
@compiled
def test_an_environment_variable_leaves_it_out(value, there):
    code = "from fedspca.linalg.compiled.library import library; print(library() is not None)"
    env = {**os.environ, "FEDSPCA_COMPILED": value}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str(there)


def test_without_a_library_numpy_does_the_work(monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "_PATH", str(tmp_path / "none.so"))
    assert loading._load() is None


@compiled
def test_a_library_of_other_signatures_is_not_used(monkeypatch):
    monkeypatch.setattr(loading, "_INTERFACE", loading._INTERFACE + 1)
    assert loading._load() is None


def fixed(array):
    """The array, read-only: ctypes takes its address in another way."""
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("kind", [Doubles, Integers, Singles])
def test_arrays_of_other_types_or_orders_are_refused(kind):
    whole = np.zeros((3, 2), dtype=kind.dtype)
    for array in (whole.T, fixed(whole.copy()).T, whole[:, :1], np.zeros(3, dtype=np.int32), np.zeros(3, dtype=">f8")):
        with pytest.raises(TypeError, match="in C order"):
            kind.from_param(array)


@pytest.mark.parametrize("array", [np.arange(4.0), fixed(np.arange(4.0)), np.arange(4.0)[1:], np.zeros((0, 3))])
def test_an_address_is_that_of_the_first_entry(array):
    assert address(array) == array.ctypes.data


def test_a_lack_of_memory_is_an_error():
    assert checked(0) == 0
    with pytest.raises(MemoryError, match="working memory"):
        checked(-1)


def eigenpairs(a):
    vectors, values, work = np.array(a, order="C"), np.empty(len(a)), np.empty(len(a))
    found = library()
    assert found is not None
    found.fedspca_eigenpairs.argtypes = [ctypes.c_int64, Doubles, Doubles, Doubles]
    status = found.fedspca_eigenpairs(len(a), vectors, values, work)
    return status, values, vectors


@compiled
@given(n=st.integers(0, 40), rank=st.integers(0, 40), seed=st.integers(0, 99), exponent=st.integers(-290, 290))
def test_eigenpairs_are_those_of_lapack(n, rank, seed, exponent):
    x = np.random.default_rng(seed).integers(-2, 3, (n, min(n, rank))).astype(float)  # many equal eigenvalues
    a = x @ x.T * 10.0**exponent
    status, values, vectors = eigenpairs(a)
    size = float(np.abs(a).max(initial=0.0))
    assert status == 0
    assert np.allclose(values, np.linalg.eigvalsh(a), rtol=0.0, atol=1e-13 * size * max(n, 1))
    assert np.allclose(vectors.T @ vectors, np.eye(n), atol=1e-13 * max(n, 1))
    assert np.allclose(a @ vectors, vectors * values, rtol=0.0, atol=1e-13 * size * max(n, 1))
