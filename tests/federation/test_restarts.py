"""Masks and ledgers when everything is stopped between any two messages."""

import numpy as np
import pytest

from contracts.federation import make_sites, pooled
from fedspca import ExactSPCA, LocalFederation
from fedspca.federation.private import under_agreement
from helpers.restarting import Restarting, Stopped


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
