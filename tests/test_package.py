"""What `import fedspca` gives, and what it costs."""

import subprocess
import sys

import pytest

import fedspca
import fedspca.federation


@pytest.mark.parametrize("package", [fedspca, fedspca.federation])
def test_every_public_name_is_there(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(fedspca.__all__) <= set(dir(fedspca))


def test_an_unknown_name_is_an_attribute_error():
    name = "SparsePCB"
    for package in (fedspca, fedspca.federation):
        with pytest.raises(AttributeError, match=r"fedspca.*'SparsePCB'"):
            getattr(package, name)


def test_the_relay_pays_for_no_numbers():
    # a SuperNode starts a process for every message, so an import here is paid for in every round by every site
    code = "import sys, fedspca.flower.relay; print(sorted({'numpy', 'scipy', 'sklearn'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# What Pyodide, Python in a browser, does not have: threads and processes do not start, and some modules are missing.
AS_IN_A_BROWSER = """
import importlib.abc, os, sys, threading

LACKING = {"_multiprocessing", "curses", "dbm", "fcntl", "grp", "pwd", "resource", "syslog", "termios", "tkinter"}


class Lacking(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LACKING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def refuse(*_, **__):
    raise RuntimeError("can't start new thread")


for name in LACKING & set(sys.modules):
    del sys.modules[name]
sys.meta_path.insert(0, Lacking())
threading.Thread.start = os.fork = refuse
import _posixsubprocess

_posixsubprocess.fork_exec = refuse

import numpy as np

from fedspca import FASPCA, ExactSPCA, SparsePCAModel
from fedspca.literature import TruncatedPower

rows = np.random.default_rng(0).standard_normal((60, 8)) * [5, 4, 4, 1, 1, 1, 1, 1]
owners = np.arange(60) % 3
fits = (ExactSPCA(2, n_nonzero=2), FASPCA(2, lam=40.0), TruncatedPower(2, n_nonzero=2))
print([fit.fit(rows, sites=owners).components_.shape for fit in fits])
SparsePCAModel.from_estimator(fits[0]).save(sys.argv[1])
"""


def test_the_core_runs_where_a_browser_would_run_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", AS_IN_A_BROWSER, tmp_path / "model"], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "[(2, 8), (2, 8), (2, 8)]", done.stderr
    assert fedspca.SparsePCAModel.load(tmp_path / "model").nonzeros == [2, 2]
