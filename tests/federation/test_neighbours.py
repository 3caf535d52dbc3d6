"""Many sites under masks: each round is one exchange, a lost site is waited for, and nobody is left out."""

import numpy as np
import pytest

from contracts.federation import D, FederationContract, make_sites
from fedspca import ExactSPCA, LocalFederation, Query, Site, SiteRefusal
from fedspca.federation import roster
from fedspca.federation.conversation import SiteLost
from fedspca.federation.neighbours import NeighbourFederation
from fedspca.federation.secure import SecureFederation, masked_federation, secure_federation
from fedspca.letters.identity import split_letter
from fedspca.letters.wire import Message, WireError, decode
from fedspca.masking.graph import MANY
from fedspca.masking.messages import PREVIOUS
from helpers.masks import watched
from helpers.neighbours import few_choices

SIZES = (5, 3, 9, 4, 6, 7)


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    few_choices(monkeypatch)
    monkeypatch.setattr(roster, "PAUSE", 0.0)


class TestNeighbourFederation(FederationContract):
    @pytest.fixture(autouse=True)
    def _fewer(self, monkeypatch):
        few_choices(monkeypatch, 1)

    test_a_fit_over_it_equals_the_fit_of_stacked_rows = None  # it takes long, and a fit is made below

    def federate(self, sites):
        return secure_federation(sites)


def begun(on_dropout="wait", lost=None, after=0):
    return watched(make_sites(sizes=SIZES), lost, after, on_dropout, kind=masked_federation)


def test_a_fit_gives_what_it_gives_without_masks():
    plain = ExactSPCA(2, n_nonzero=3).fit_federation(LocalFederation(make_sites(sizes=SIZES)))
    federation, _ = begun()
    assert type(federation) is NeighbourFederation
    masked = ExactSPCA(2, n_nonzero=3).fit_federation(federation)
    assert np.abs(masked.components_ - plain.components_).max() < 1e-8


def test_a_round_is_one_exchange_and_its_letter_the_same_for_all():
    federation, channel = begun()
    federation.sum(Query("moments"))
    before = len(channel.letters)
    federation.sum(Query("deviations", {"mean": np.zeros(D)}))
    sent = channel.letters[before:]
    assert len(sent) == 2 * len(SIZES)
    assert len(set(sent[: len(SIZES)])) == 1
    kinds = {decode(split_letter(letter)[1]).kind for letter in channel.letters}
    assert kinds == {"keys", "shares", "masked"}


@pytest.mark.parametrize("kind", ["keys", "shares", "masked"])
def test_a_lost_site_is_waited_for_at_every_step(kind):
    federation, channel = begun(lost={"clinic-2": kind})
    waited = []

    def notice(words):
        waited.append(words)
        channel.gone.clear()
        channel.lost = {}

    federation._notice = notice
    assert federation.sum(Query("moments")).number("rows") == sum(SIZES)
    assert len(waited) == 1
    assert "clinic-2" in waited[0]
    federation.sum(Query("deviations", {"mean": np.zeros(D)}))


@pytest.mark.parametrize("kind", ["keys", "shares", "masked"])
def test_a_study_that_does_not_wait_ends_and_what_arrived_tells_nothing(kind):
    federation, channel = begun("abort", {"clinic-2": kind})
    with pytest.raises(SiteLost, match="clinic-2"):
        federation.sum(Query("moments"))
    vectors = [message.arrays["vector"] for _, message in channel.replies("masked")]
    assert len(vectors) == (len(SIZES) - 1 if kind == "masked" else 0)
    assert kind != "masked" or sum(int(vector[-1]) for vector in vectors) % 2**64 != 0


def test_nobody_helps_to_unmask():
    federation, _ = begun()
    federation.sum(Query("moments"))
    fields = {"survivors": list(federation.sites[1:]), "query": "moments"}
    with pytest.raises(SiteRefusal, match="nobody helps to unmask"):
        federation._conversation.ask("unmask", 1, {federation.sites[1]: (fields, {})}, "unmask")


def test_a_coordinator_that_leaves_a_site_out_is_refused():
    federation, _ = begun()
    federation.sum(Query("moments"))
    federation.sites = federation.sites[:-1]
    with pytest.raises(SiteRefusal, match="every sum is over all of them"):
        federation.sum(Query("moments"))


def test_an_altered_sum_ends_the_run():
    federation, _ = begun()
    federation.sum(Query("moments"))
    federation._previous[1][PREVIOUS][0] ^= np.uint64(1)
    for _ in range(2):
        with pytest.raises(SiteRefusal, match="not the sum of what the sites sent"):
            federation.sum(Query("moments"))


def test_a_coordinator_that_was_stopped_sends_the_same_letters():
    federation, channel = begun()
    federation.sum(Query("moments"))
    kept = federation.snapshot()
    assert kept.fields["certificates"] == {}  # the sites have seen them
    first = federation.sum(Query("deviations", {"mean": np.zeros(D)}))
    again = masked_federation(federation._conversation)
    again.restore(kept)
    second = again.sum(Query("deviations", {"mean": np.zeros(D)}))
    assert np.array_equal(first["squares"], second["squares"])
    assert channel.inner.endpoints["clinic-0"].site._answered == 2


def test_sites_that_restart_go_on():
    federation, channel = begun()
    federation.sum(Query("moments"))
    for endpoint in channel.inner.endpoints.values():
        endpoint._session = None
    assert federation.sum(Query("moments")).number("rows") == sum(SIZES)


def test_what_is_no_certificate_or_letter_loses_the_site():
    federation, _ = begun()
    sender = {"sender": federation.sites[0]}
    for kind, arrays in (
        ("keys", {"certificate": np.zeros(0, np.uint8)}),
        ("keys", {"certificate": np.full(9, 3, np.uint8)}),
        ("shares", {}),
        ("shares", {"letters": np.zeros((6, 43), np.uint8)}),
        ("masked", {}),
    ):
        with pytest.raises(WireError):
            federation._check(kind, Message(kind, sender, arrays), 6, 10)
    federation._check("shares", Message("shares", {"sender": federation.sites[1]}), 6, 10)


def test_many_sites_mask_among_neighbours_and_studies_that_go_on_without_some_do_not(monkeypatch):
    monkeypatch.undo()
    rows = np.random.default_rng(0).standard_normal((MANY, 4, 2))
    sites = [Site(f"site {k:02d}", rows[k]) for k in range(MANY)]
    federation = secure_federation(sites)
    assert type(federation) is NeighbourFederation
    assert np.allclose(federation.sum(Query("moments"))["sums"], rows.sum(axis=(0, 1)))
    assert type(secure_federation(sites[1:])) is SecureFederation
    assert type(secure_federation(sites, on_dropout="continue")) is SecureFederation
