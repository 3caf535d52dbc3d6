"""A question that fails at some sites: who fails, and when, would tell a site's numbers one bit at a time."""

import numpy as np
import pytest

from contracts.federation import make_sites
from fedspca import Query, Site
from fedspca.door import session
from fedspca.door.endpoint import FAILED
from fedspca.site.errors import SiteError
from helpers.hostile import frame, masked
from helpers.letters import conversation_with

D = 4


def curvature(reference):
    """A power of 16 that overflows where the largest eigenvalue is above reference·2⁶⁴."""
    return Query("curvature", frame(D), {"reference": reference})


def parts():
    return [np.random.default_rng(k).standard_normal((30, D)) * 10.0**k for k in range(3)]


def sites():
    return [Site(f"s{k}", part) for k, part in enumerate(parts())]


def named(federation, reference):
    """Return who is named as having failed, or 'somebody' where the sum says so of nobody."""
    try:
        federation.sum(curvature(reference))
    except SiteError as error:
        return error.site
    except Exception:
        return "somebody"
    return None


FITS = 1e4
BETWEEN = 1.0  # with it the third site's power exceeds the integers, and no other's does


def test_under_masks_nobody_is_named():
    federation = masked(sites())
    assert named(federation, FITS) is None
    assert named(federation, BETWEEN) == "somebody"


def test_a_failure_inside_is_told_like_a_number_that_does_not_fit(monkeypatch):
    federation = masked(sites())

    def breaks(self):
        if self.standardised.rows[0, 0] == parts()[1][0, 0]:
            raise np.linalg.LinAlgError("did not converge")
        return 1.0

    monkeypatch.setattr("fedspca.linalg.operators.DeflatedRows.largest_eigenvalue", breaks)
    assert named(federation, FITS) == "somebody"
    door = federation._conversation._channel.endpoints["s1"]
    line = [line for line in door.audit.lines() if line["kind"] == "masked"][-1]
    assert (line["verdict"], line["failed"], line["failures"]) == ("answered", True, 1)  # its owner reads it
    others = federation._conversation._channel.endpoints["s0"].audit.lines()
    assert not any("failed" in line for line in others)


def test_a_few_failures_end_the_study_and_attempts_count():
    made = sites()
    federation = masked(made)
    for _ in range(session.MOST_FAILURES):
        assert named(federation, BETWEEN) == "somebody"
    assert named(federation, FITS) == "somebody"  # nothing is told any more, and by whom is not told either
    assert [int(site.snapshot()["answered"]) for site in made] == [4, 4, 4]
    inside = federation._conversation
    again = type(federation)(type(inside)(inside._channel, inside._identity, inside.agreement, "1" * 32))
    assert named(again, FITS) == "somebody"


def test_without_the_limit_a_bound_is_bisected(monkeypatch):
    """What the limit is for: a site's largest eigenvalue, from who fails at which reference."""
    monkeypatch.setattr(session, "MOST_FAILURES", 10**9)
    federation = masked(sites())
    low, high = -40.0, 10.0
    for _ in range(30):
        middle = (low + high) / 2
        if named(federation, 10.0**middle) is None:
            high = middle
        else:
            low = middle
    # the largest term that fits is 2²⁵⁴ over the sites' two bits
    found = 10.0**high * 2.0 ** (252 / 16)
    centred = parts()[2]
    assert np.isclose(found, np.linalg.norm(centred, 2) ** 2, rtol=0.05)


def test_without_masks_the_reason_is_always_the_same(monkeypatch):
    from fedspca.federation.plain import PlainFederation

    made = make_sites(sizes=(5, 6, 7), d=D)
    federation = PlainFederation(conversation_with(made))
    monkeypatch.setattr(
        "fedspca.linalg.operators.DeflatedRows.largest_eigenvalue", lambda self: np.linalg.inv(np.zeros((2, 2)))
    )
    with pytest.raises(SiteError) as caught:
        federation.sum(curvature(1.0))
    assert caught.value.reason == FAILED
    assert int(made[0].snapshot()["answered"]) == 1
