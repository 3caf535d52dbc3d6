import shutil

import numpy as np
import pytest

from fedspca import Policy, Site
from fedspca.door.endpoint import Endpoint
from fedspca.door.store import FolderStore
from fedspca.letters.identity import Identity
from fedspca.letters.wire import WireError
from helpers.door import FRAME, D, letter, reply, rows
from helpers.letters import COORDINATOR, KEYS, agreement_for


class TestFolder:
    @pytest.fixture
    def made(self, tmp_path):
        site = Site("north", rows(), policy=Policy(min_sites=3))
        others = [Site("south", rows(1)), Site("east", rows(2))]
        agreement = agreement_for([site, *others], min_sites=3)
        store = FolderStore(tmp_path, KEYS[0])
        door = Endpoint(site, KEYS[0], COORDINATOR.public, store)
        door.study, door.agreement, door.store = agreement.hash, agreement, store
        return door

    def propose(self, door, agreement=None):
        text = np.frombuffer((agreement or door.agreement).text().encode(), np.uint8)
        return reply(door, kind="propose", arrays={"agreement": text})

    def test_nothing_is_answered_before_the_owner_approves_and_after_withdrawal(self, made):
        assert "not approved" in reply(made).fields["reason"]
        assert self.propose(made).fields["state"] == "not approved"
        assert "not approved" in reply(made).fields["reason"]
        made.store.approve(made.agreement)
        assert self.propose(made).fields["state"] == "approved"
        assert reply(made).kind == "terms"
        made.store.withdraw(made.agreement)
        assert "not approved" in reply(made, number=2).fields["reason"]

    def test_an_approval_by_another_key_or_of_another_study_does_not_count(self, made, tmp_path):
        self.propose(made)
        FolderStore(tmp_path, Identity.new()).approve(made.agreement)
        assert "not approved" in reply(made).fields["reason"]
        other = agreement_for([made.site, Site("south", rows()), Site("east", rows())], min_sites=3, max_rounds=77)
        made.store.propose(other)
        made.store.approve(other)
        self.propose(made)
        shutil.copy(tmp_path / other.hash / "approval", tmp_path / made.study / "approval")
        assert "not approved" in reply(made).fields["reason"]

    def test_terms_that_were_edited_on_disk_are_not_the_approved_ones(self, made, tmp_path):
        self.propose(made)
        made.store.approve(made.agreement)
        path = tmp_path / made.study / "agreement.json"
        path.write_text(path.read_text().replace('"max_rounds": 5000', '"max_rounds": 9000'))
        assert "not approved" in reply(made).fields["reason"]

    def test_a_restarted_site_goes_on_with_the_same_bytes(self, made, tmp_path):
        self.propose(made)
        made.store.approve(made.agreement)
        asked = {"query": "faspca_step", "arrays": {"z": np.eye(D)[:, :2], **FRAME, "start": np.eye(D)[:, :2]}}
        scalars = {"rho": 5.0, "seed": 0, "deflation": "orthogonal"}
        first = reply(made, number=1, scalars={**scalars, "iteration": 0}, **asked)
        assert first.kind == "terms", first.fields
        kept = made.handle(letter(made, number=1, scalars={**scalars, "iteration": 0}, **asked))
        again = Endpoint(Site("north", rows()), KEYS[0], COORDINATOR.public, FolderStore(tmp_path, KEYS[0]))
        again.study = made.study
        assert again.handle(letter(made, number=1, scalars={**scalars, "iteration": 0}, **asked)) == kept
        step = {"query": "faspca_step", "arrays": {"z": np.eye(D)[:, :2]}, "scalars": {**scalars, "iteration": 1}}
        here, there = reply(made, number=2, **step), reply(again, number=2, **step)
        assert here.kind == there.kind == "terms"
        assert here.arrays["consensus"].tobytes() == there.arrays["consensus"].tobytes()

    def test_a_state_that_was_altered_is_refused(self, made, tmp_path):
        self.propose(made)
        made.store.approve(made.agreement)
        reply(made)
        path = tmp_path / made.study / "state"
        content = path.read_bytes()
        for damaged in (content[:-3], content[:50] + bytes([content[50] ^ 1]) + content[51:], b""):
            path.write_bytes(damaged)
            with pytest.raises(WireError, match="cut off or altered"):
                made.store.load(made.study)

    def test_proposals_do_not_pile_up(self, made, tmp_path):
        sites = [made.site, Site("south", rows()), Site("east", rows())]
        for limit in range(10, 20):
            assert self.propose(made, agreement_for(sites, min_sites=3, max_rounds=limit)).kind == "proposal"
        assert len(made.store.studies()) == 1

    def test_what_is_proposed_again_is_what_the_owner_reads(self, made):
        sites = [made.site, Site("south", rows()), Site("east", rows())]
        first, second = (agreement_for(sites, min_sites=3, max_rounds=limit) for limit in (10, 11))
        self.propose(made, first)
        made.store.approve(first)  # it is kept beside the next one
        self.propose(made, second)
        assert [study.hash for study in made.store.studies()] == [first.hash, second.hash]
        self.propose(made, first)
        assert [study.hash for study in made.store.studies()] == [second.hash, first.hash]

    @pytest.mark.parametrize(
        ("terms", "words"),
        [
            ({"min_sites": 2}, "requires 3"),
            ({"coordinator": KEYS[5].public}, "another coordinator"),
            ({"sites": {"north": KEYS[4].public, "south": KEYS[1].public, "east": KEYS[2].public}}, "with its own key"),
            ({"features": ("a", "b")}, "has 5 features and the study 2"),
            ({"features": ("x1", "x0", "x2", "x3", "x4")}, "column 0 is 'x0'"),
        ],
    )
    def test_terms_that_the_site_cannot_take_are_refused(self, made, terms, words):
        from dataclasses import replace

        answer = self.propose(made, replace(made.agreement, **terms))
        assert answer.kind == "refused"
        assert words in answer.fields["reason"]
        assert made.store.studies() == []


def test_what_was_answered_is_remembered_after_a_withdrawal(tmp_path):
    site = Site("north", rows())
    agreement, other = agreement_for([site]), agreement_for([site], max_rounds=7)
    store = FolderStore(tmp_path, KEYS[0])
    store.propose(agreement)
    store.approve(agreement)
    door = Endpoint(site, KEYS[0], COORDINATOR.public, store)
    door.study = agreement.hash
    assert reply(door, number=3).kind == "terms"
    store.withdraw(agreement)
    store.propose(other)
    store.approve(agreement)
    again = Endpoint(Site("north", rows()), KEYS[0], COORDINATOR.public, store)
    again.study = agreement.hash
    assert "is over" in reply(again, number=2).fields["reason"]
