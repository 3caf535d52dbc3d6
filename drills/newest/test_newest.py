"""The newest release of Flower that is supported: at everyone's, and at the coordinator's or the sites' alone.

``make drill-newest`` puts it beside the pinned release. Whoever has it in ``PYTHONPATH`` uses it.
"""

import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from fedspca import ExactSPCA
from fedspca.flower.processes import running
from fedspca.model import SparsePCAModel
from institutions import Institutions, institutions

NEWEST = Path(__file__).parents[2] / "build" / "flower-newest"
SITES = ("east", "north", "south")


class Mixed(Institutions):
    """Institutions of which some have the newest release: those who type ``study``, those who type ``site``."""

    def __init__(self, home, sites, who):
        self.who = who
        super().__init__(home, sites)

    def variables(self, arguments):
        return {"PYTHONPATH": str(NEWEST)} if arguments[0] in self.who else {}


@pytest.fixture(params=[("study", "site"), ("study",), ("site",)], ids=["all", "coordinator", "sites"])
def mixed(request):
    if not NEWEST.exists():
        pytest.skip("there is no second release of Flower here: make drill-newest")
    yield from institutions(SITES, kind=Mixed, who=request.param)


def test_a_masked_study_runs_with_the_newest_release(mixed):
    newest = next(NEWEST.glob("flwr-*.dist-info")).name.removesuffix(".dist-info").removeprefix("flwr-")
    assert newest != version("flwr")
    used = newest if "site" in mixed.who else version("flwr")
    assert re.search(rf"Flower {re.escape(used)}\b", mixed.run("site", "doctor", "--site", "north"))
    server = running(mixed.folder.flower, "superlink")
    assert (str(NEWEST) in Path(f"/proc/{server}/environ").read_text()) is ("study" in mixed.who)
    mixed.approve()
    mixed.run("study", "run", "trial")
    rows, owners = np.vstack([mixed.data[name] for name in SITES]), np.repeat(SITES, 20)
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(rows, sites=owners)
    there = SparsePCAModel.load(mixed.folder.model).components
    assert np.abs(there - here.components_).max() < 1e-8
