import numpy as np
import pytest

from contracts.federation import EXACTLY, D, make_sites
from fedspca import ExactSPCA, Query
from fedspca.federation.conversation import SiteLost
from fedspca.federation.plain import PlainFederation
from helpers.letters import conversation_with
from helpers.troubles import TROUBLES, troubled


@pytest.mark.parametrize("name", TROUBLES)
def test_a_site_that_is_not_to_be_believed_is_named(name):
    federation, _ = troubled(TROUBLES[name], on_dropout="abort")
    with pytest.raises(SiteLost) as caught:
        ExactSPCA(2, lam=5.0).fit_federation(federation)
    assert caught.value.site == "clinic-1"
    assert caught.value.reason


def test_an_answer_as_large_as_its_rows_allow_is_believed():
    """The bound on a product is sharp for a site whose rows all point the same way."""
    sites = make_sites((4, 4, 4))
    federation = PlainFederation(conversation_with(sites))
    frame = {"mean": np.zeros(D), "scale": np.ones(D), "removed": np.zeros((D, 0))}
    federation.sum(Query("deviations", {"mean": np.zeros(D)}))
    for site in sites:
        _, _, right = np.linalg.svd(site._data.rows)
        federation.sum(Query("gram_product", {**frame, "directions": right.T[:, :1].copy()}, EXACTLY))
