"""Units compared again and again, with joint figures of the coordinator's choice: a bisection of the sites' spreads."""

import numpy as np
import pytest

from fedspca import Query, Site, SiteRefusal
from fedspca.door import session
from fedspca.linalg.units import LONE_FACTOR
from helpers.hostile import masked

SPREADS = (1.0, 5.0, 40.0)
ROWS = 30


def sites():
    """Three sites of one feature, centred, with these standard deviations."""
    shape = np.linspace(-1, 1, ROWS)[:, None]
    return [Site(f"s{k}", spread * shape / shape.std(ddof=1)) for k, spread in enumerate(SPREADS)]


def compared(federation, spread):
    """Ask how many sites are unlike very many rows with this spread."""
    joint = {"counts": np.array([1e12]), "mean": np.zeros(1), "spread": np.array([float(spread)])}
    return int(federation.sum(Query("odd_units", joint))["odd"][0])


def test_without_the_defence_every_spread_is_found(monkeypatch):
    monkeypatch.setattr(session, "objection", lambda *_: None)
    federation = masked(sites())
    tried = 1e-2 * 1.1 ** np.arange(110)
    told = np.array([compared(federation, spread) for spread in tried])
    # where the count falls, the spread of a site is less than 6 times too large: once for each site
    found = [LONE_FACTOR * tried[k + 1] for k in np.flatnonzero(np.diff(told) < 0)]
    assert np.allclose(found, SPREADS, rtol=0.11)


def test_other_joint_figures_are_refused():
    federation = masked(sites())
    assert compared(federation, 5.0) == 1
    assert compared(federation, 5.0) == 1  # as a run that is begun again asks
    assert compared(federation, 5.0 * (1 + 1e-9)) == 1  # and as rounding differs
    with pytest.raises(SiteRefusal, match="another joint mean and spread"):
        compared(federation, 5.1)
