"""A small study between three institutions."""

import numpy as np
import pandas as pd

from fedspca.fit.settings import FitSettings
from fedspca.study.owner import SiteFolder
from fedspca.study.settings import StudySettings

SITES = ("east", "north", "south")
NAMES = [f"f{j}" for j in range(6)]


def table(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((75, 6))
    x[:, 1] += 2 * x[:, 0]
    return x


def write_tables(folder):
    """One file for each site; columns are told apart by name."""
    for name, part in zip(SITES, np.array_split(table(), 3), strict=True):
        frame = pd.DataFrame(part, columns=NAMES)
        frame = frame if name != "south" else frame[NAMES[::-1]]
        frame.to_csv(folder / f"{name}.csv", index=False)
    return folder


def study(**given):
    return StudySettings(**{"name": "trial", "sites": SITES, "masked": False, "nonzero": 3, "deadline": 5.0, **given})


def join(folder, home, name, policy=""):
    site = SiteFolder.create(home / name, FitSettings(files=(str(home / f"{name}.csv"),)))
    (site.path / "policy.toml").write_text(f"masking = false\n{policy}")
    site.join(folder.path / "invitations" / f"{name}.invitation")
    folder.admit(site.reply_file(name))
    return site


def approve(sites):
    for site in sites.values():
        site.store.approve(site.latest())


def told(folder, event):
    return [line for _, line in folder.events() if line["event"] == event]
