"""Masks and ledgers when everything is stopped between any two messages."""

import numpy as np
import pytest

from contracts.federation import make_sites, pooled
from fedspca import ExactSPCA, LocalFederation, Site
from fedspca.door.agreement import Agreement
from fedspca.door.endpoint import Endpoint
from fedspca.door.store import FolderStore
from fedspca.dp.accounting import Budget
from fedspca.dp.ledger import Ledger
from fedspca.federation.conversation import Conversation
from fedspca.federation.journal import Journal
from fedspca.federation.private import under_agreement
from fedspca.federation.resumable import ResumableFederation
from fedspca.federation.secure import SecureFederation
from fedspca.letters.audit import Audit
from fedspca.letters.identity import Identity

RUN = "0" * 32


class Restarting:
    """A channel to sites that are started anew, from their folders, for every letter."""

    def __init__(self, folder, sizes, privacy=None, **terms):
        self.folder, self.tables = folder, {site.name: site._data.rows for site in make_sites(sizes)}
        self.identities = {name: Identity.new() for name in self.tables}
        self.coordinator = Identity.new()
        features = tuple(f"x{j}" for j in range(6))
        public = {name: identity.public for name, identity in self.identities.items()}
        self.agreement = Agreement(
            "study", self.coordinator.public, public, features, {}, privacy=privacy, patience=60.0, **terms
        )
        for name, identity in self.identities.items():
            store = FolderStore(folder / name, identity)
            store.propose(self.agreement)
            store.approve(self.agreement)
        self.drop = lambda count, site: False
        self.count = 0

    @property
    def sites(self):
        return tuple(sorted(self.tables))

    def exchange(self, letters, deadline):
        replies = {}
        for name, letter in letters.items():
            self.count += 1
            reply = self.endpoint(name).handle(letter)
            if not self.drop(self.count, name):  # the reply was written down, and lost on its way
                replies[name] = reply
        return replies

    def endpoint(self, name):
        site = Site(name, self.tables[name])
        home = self.folder / name
        site.ledger = Ledger(Budget(2.0, 1e-6) if self.agreement.privacy else None, home / "ledger.jsonl")
        store = FolderStore(home, self.identities[name])
        return Endpoint(site, self.identities[name], self.coordinator.public, store, Audit(home / "log.jsonl"))

    def federation(self, journal=None):
        federation = SecureFederation(Conversation(self, self.coordinator, self.agreement, RUN))
        return ResumableFederation(federation, Journal(journal, "this")) if journal else federation


class Stopped(Exception):
    """The coordinator is killed."""


def test_sites_that_restart_and_replies_that_are_lost_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("fedspca.federation.roster.PAUSE", 0.0)
    channel = Restarting(tmp_path, (20, 11, 30, 14))
    channel.drop = lambda count, site: count % 7 == 0
    model = ExactSPCA(2, lam=3.0).fit_federation(channel.federation())
    plain = ExactSPCA(2, lam=3.0).fit_federation(LocalFederation(make_sites((20, 11, 30, 14))))
    assert np.abs(model.components_ - plain.components_).max() < 1e-8
    assert channel.endpoint("clinic-1").audit.verify() > 0


@pytest.mark.parametrize("after", [3, 6, 10, 14, 18, 25])
def test_a_coordinator_stopped_at_any_moment_resumes_to_the_same_bits(tmp_path, after):
    whole = Restarting(tmp_path / "whole", (20, 11, 30))
    expected = ExactSPCA(2, lam=3.0, search="products").fit_federation(whole.federation())
    channel = Restarting(tmp_path / "stopped", (20, 11, 30))

    def stop(count, site):
        if count == after:
            raise Stopped
        return False

    channel.drop = stop
    with pytest.raises(Stopped):
        ExactSPCA(2, lam=3.0, search="products").fit_federation(channel.federation(tmp_path / "journal"))
    model = ExactSPCA(2, lam=3.0, search="products").fit_federation(channel.federation(tmp_path / "journal"))
    assert np.array_equal(model.components_, expected.components_)


@pytest.mark.parametrize("after", [2, 8, 11, 14])
def test_a_private_study_that_is_stopped_pays_once(tmp_path, after):
    privacy = {"epsilon": 2.0, "delta": 1e-6, "clip": 3.0}
    channel = Restarting(tmp_path / "sites", (200, 110, 300, 140), privacy)

    def stop(count, site):
        if count == after:
            raise Stopped
        return False

    channel.drop = stop
    with pytest.raises(Stopped):
        under_agreement(channel.federation(tmp_path / "journal"), channel.agreement).released()
    federation = under_agreement(channel.federation(tmp_path / "journal"), channel.agreement)
    release = federation.released()
    assert abs(release.rows - len(pooled(make_sites((200, 110, 300, 140))))) < 500
    for name in channel.sites:
        ledger = channel.endpoint(name).site.ledger
        assert len(list(ledger.entries())) == 1
        assert 1.9 < ledger.spent() <= 2.0
    again = under_agreement(channel.federation(tmp_path / "journal"), channel.agreement).released()
    assert np.array_equal(again.values, release.values)


def test_a_site_lost_in_each_stage_of_a_private_study(tmp_path):
    privacy = {"epsilon": 2.0, "delta": 1e-6, "clip": 3.0}
    for stage in range(4):  # keys, shares, masked, unmask: four letters each
        channel = Restarting(tmp_path / str(stage), (200, 110, 300, 140), privacy, on_dropout="continue")
        channel.drop = lambda count, site, stage=stage: site == "clinic-3" and count > 4 * stage
        federation = under_agreement(channel.federation(), channel.agreement)
        federation.released()
        assert federation.lost.keys() == ({"clinic-3"} if stage < 3 else set())
        assert channel.endpoint("clinic-0").site.ledger.spent() <= 2.0
