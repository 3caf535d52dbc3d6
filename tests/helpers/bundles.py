"""The bundle of a small finished study, and how one who holds a key would alter it."""

import json

import numpy as np
import pandas as pd

from fedspca.federation.channel import LocalChannel
from fedspca.fit.settings import FitSettings
from fedspca.study.bundle import FORMAT, MANIFEST, digests
from fedspca.study.run import run_study
from fedspca.study.settings import StudySettings
from fedspca.study.simulation import endpoints, make_simulation

SITES = ("east", "north", "south")


def finished(home, *, run=True, rows=40, **given):
    """Make a study of three sites, run it, and return its folder."""
    rng = np.random.default_rng(0)
    for name in SITES:
        table = rng.standard_normal((rows, 5))
        table[:, 1] += 2 * table[:, 0]
        pd.DataFrame(table, columns=list("abcde")).to_csv(home / f"{name}.csv", index=False)
    data = FitSettings(files=tuple(str(home / f"{name}.csv") for name in SITES))
    settings = StudySettings(**{"name": "trial", "sites": SITES, "nonzero": 2, "path": False, **given})
    folder = make_simulation(home / "trial", settings, data)
    if run:
        run_study(folder, LocalChannel(endpoints(folder)), "run")
    return folder


def signed_anew(bundle, coordinator, agreement):
    """Sign a bundle that was altered, as a coordinator can."""
    content = {"format": FORMAT, "agreement": agreement.hash, "files": digests(bundle)}
    (bundle / MANIFEST).write_bytes(coordinator.sign(json.dumps(content, sort_keys=True).encode()))
