import pytest

from contracts.federation import make_sites
from fedspca.door.session import Session
from fedspca.letters.identity import Identity


@pytest.mark.parametrize(("on_dropout", "allowed"), [("wait", False), ("abort", False), ("continue", False)])
def test_a_consensus_never_shrinks(on_dropout, allowed):
    from fedspca.door.agreement import Agreement
    from fedspca.door.masked import _party

    sites = make_sites(sizes=(5, 7, 9, 4))
    key = Identity.new().public
    agreement = Agreement(
        "s", key, {s.name: key for s in sites}, sites[0].feature_names, {}, min_sites=3, on_dropout=on_dropout
    )
    session = Session(agreement, sites[0], Identity.new(), run="0" * 32)
    assert ("faspca_step" in _party(session).survives) is allowed
    assert "private_gram" in _party(session).survives
