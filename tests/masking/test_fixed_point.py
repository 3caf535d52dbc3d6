import numpy as np
import pytest

from contracts.federation import make_sites, pooled
from fedspca import Query
from fedspca.federation import FederationError
from fedspca.masking.fixed_point import WIDE, Coding, decode_terms
from helpers.masks import watched


def test_numbers_that_do_not_fit_are_told_under_masks_and_nobody_is_named():
    federation, channel = watched(make_sites())
    federation._scale.codings = lambda query, sites: dict.fromkeys(("rows", "counts", "sums"), Coding(1, 62))
    with pytest.raises(FederationError, match="numbers of one site or more do not fit"):
        federation.sum(Query("moments"))
    assert all(message.kind != "refused" for _, message in channel.replies("masked"))
    del federation._scale.codings
    assert federation.sum(Query("moments")).number("rows") == len(pooled(make_sites()))  # it ends one round only


def test_a_bound_that_all_sites_but_one_exceed_does_not_tell_that_ones_terms(monkeypatch):
    """Else a coordinator would look for such a bound, and read one site's own terms off the sum."""
    sites = make_sites(sizes=(40, 3, 45))
    federation, _ = watched(sites)
    codings = {"rows": Coding(1, 56), "counts": WIDE, "sums": WIDE}
    assert codings["rows"].limit(3) == 16
    monkeypatch.setattr(federation._scale, "codings", lambda query, sites: codings)
    monkeypatch.setattr(
        "fedspca.federation.secure.decode_terms",  # a coordinator that takes what it has for numbers all the same
        lambda total, segments: decode_terms(np.append(total[:-1], np.uint64(0)), segments),
    )
    read, alone = federation.sum(Query("moments")), sites[1].answer(Query("moments"))
    assert read["rows"] != alone["rows"]
    assert not np.isclose(read["sums"], alone["sums"]).any()
