import contextlib
import json
import re
import secrets
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedspca import Policy, Site
from fedspca.door.agreement import InvalidAgreement, objections, owners_objections, read_agreement
from fedspca.door.endpoint import Endpoint
from fedspca.door.store import FolderStore
from fedspca.letters.identity import Identity, InvalidSignature, fingerprint, signed_payload
from fedspca.letters.wire import Message, WireError, decode, encode
from helpers.letters import COORDINATOR, KEYS, agreement_for, doors

RUN = secrets.token_hex(16)
D = 5


def rows(seed=0, n=20):
    return np.random.default_rng(seed).standard_normal((n, D))


@pytest.fixture
def door():
    site = Site("north", rows())
    agreement = agreement_for([site])
    made = doors([site], agreement)["north"]
    made.study = agreement.hash
    return made


def letter(door, kind="ask", number=1, run=RUN, arrays=None, signer=COORDINATOR, **fields):
    heading = {"study": door.study, "run": run, "round": number, "sender": "coordinator"}
    if kind == "ask":
        heading |= {"query": "moments", "scalars": {}}
    return signer.sign(encode(Message(kind, {**heading, **fields}, arrays or {})))


def reply(door, *arguments, **given):
    answer = door.handle(letter(door, *arguments, **given))
    return decode(signed_payload(answer, door.identity.public, "the site"))


def test_a_question_is_answered_with_terms_and_logged(door):
    answer = reply(door)
    assert answer.kind == "terms"
    assert np.allclose(answer.arrays["sums"], rows().sum(axis=0))
    assert (answer.fields["round"], answer.fields["run"], answer.fields["sender"]) == (1, RUN, "north")
    line = list(door.audit.lines())[-1]
    assert (line["verdict"], line["query"], line["round"]) == ("answered", "moments", 1)
    assert line["released"] == [["rows", "<f8", []], ["counts", "<f8", [D]], ["sums", "<f8", [D]]]
    assert door.audit.verify() == 1


def test_the_same_letter_gets_the_same_bytes_and_another_one_nothing(door):
    first = door.handle(letter(door))
    assert door.handle(letter(door)) == first  # a signature is never the same twice, the payload is
    assert [line["verdict"] for line in door.audit.lines()] == ["answered", "repeated"]
    assert int(door.site.snapshot()["answered"]) == 1
    other = reply(door, query="deviations", arrays={"mean": np.zeros(D)})
    assert other.kind == "refused"
    assert "answered before" in other.fields["reason"]


def test_older_rounds_and_runs_are_over(door):
    assert reply(door, number=1).kind == "terms"
    assert reply(door, number=2).kind == "terms"
    assert "round 1 is over" in reply(door, number=1).fields["reason"]
    assert reply(door, number=1, run="a" * 32).kind == "terms"
    assert "the run is over" in reply(door, number=3).fields["reason"]
    assert "round 0 is over" in reply(door, number=0, run="b" * 32).fields["reason"]


def test_letters_of_strangers_and_altered_ones_are_refused_and_logged(door):
    good = letter(door)
    strangers = [
        letter(door, signer=Identity.new()),
        letter(door, signer=door.identity),
        good[:-1] + bytes([good[-1] ^ 1]),
        good[:40] + bytes([good[40] ^ 1]) + good[41:],
        good + b"x",
        good[:-1],
        b"",
        b"\x00",
        bytes([104]) * 300,
    ]
    for bad in strangers:
        answer = decode(signed_payload(door.handle(bad), door.identity.public, "the site"))
        assert answer.kind == "refused"
        assert answer.fields["error"] == "InvalidSignature"
    assert [line["verdict"] for line in door.audit.lines()] == ["refused"] * len(strangers)
    assert int(door.site.snapshot()["answered"]) == 0


FRAME = {"mean": np.zeros(D), "scale": np.ones(D), "removed": np.zeros((D, 0))}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "drop_tables"}, "no such kind"),
        ({"query": "rows"}, "no such question"),
        ({"query": "../../etc/passwd"}, "no such question"),
        ({"query": 7}, "must be a text"),
        ({"query": "x" * 5000}, "at most 40"),
        ({"scalars": [1]}, "table of numbers"),
        ({"scalars": {"x": {"y": 1}}}, "table of numbers"),
        (
            {
                "query": "gram_sketch",
                "arrays": FRAME,
                "scalars": {"seed": 1, "columns": 10**12, "precision": "float64"},
            },
            "10{12}|1000000000000",
        ),
        (
            {"query": "gram_sketch", "arrays": FRAME, "scalars": {"seed": 1, "columns": "all", "precision": "float64"}},
            "columns must be",
        ),
        (
            {"query": "gram_sketch", "arrays": FRAME, "scalars": {"seed": 1, "columns": 2, "precision": "object"}},
            "precision must be",
        ),
        ({"query": "deviations", "arrays": {"mean": np.zeros(D, np.float32)}}, "float64"),
        ({"query": "deviations", "arrays": {"mean": np.zeros(D, np.uint8)}}, "float64"),
        ({"query": "deviations", "arrays": {"mean": np.zeros((D, 1))}}, "1 dimension"),
        ({"query": "deviations", "arrays": {"mean": np.full(D, np.inf)}}, "NaN or infinity"),
        ({"run": "../run"}, "32 hexadecimal"),
        ({"run": "A" * 32}, "32 hexadecimal"),
        ({"study": "../../secrets"}, "not approved"),
        ({"study": "0" * 64}, "not approved"),
        ({"number": -1}, "whole number"),
        ({"number": 2**70}, "whole number"),
        ({"number": "1"}, "whole number"),
        ({"kind": "propose", "arrays": {"agreement": np.frombuffer(b"\x80\x04\x95pickle", np.uint8)}}, "not JSON"),
        ({"kind": "propose"}, "without an agreement"),
    ],
)
def test_a_hostile_coordinator_is_refused(door, given, words):
    answer = reply(door, **given)
    assert answer.kind == "refused"
    assert re.search(words, answer.fields["reason"]), answer.fields["reason"]
    assert int(door.site.snapshot()["answered"]) == 0
    assert list(door.audit.lines())[-1]["verdict"] == "refused"


def test_a_letter_that_is_too_long_is_refused_unread(door):
    door._max_bytes = 1000
    answer = reply(door, arrays={"mean": np.zeros(500)})
    assert "longer than the 1000" in answer.fields["reason"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    payload=st.binary(max_size=200),
    fields=st.dictionaries(
        st.sampled_from(["study", "run", "round", "query", "scalars"]),
        st.none() | st.integers() | st.text(max_size=70) | st.lists(st.integers(), max_size=2),
    ),
    kind=st.sampled_from(["ask", "hello", "propose", "masked", ""]),
)
def test_whatever_is_signed_a_reply_comes(door, payload, fields, kind):
    for content in (payload, encode(Message(kind, fields))):
        answer = decode(signed_payload(door.handle(COORDINATOR.sign(content)), door.identity.public, "the site"))
        assert answer.kind in {"refused", "hello"}


def test_a_failure_inside_a_handler_changes_nothing(door):
    assert reply(door, number=1).kind == "terms"
    before = door.site.snapshot()
    assert reply(door, number=2, query="deviations", arrays={"mean": np.zeros(D + 1)}).kind == "refused"
    assert door.site.snapshot().keys() == before.keys()
    assert reply(door, number=2).kind == "terms"


def test_masked_studies_answer_no_plain_question():
    site = Site("north", rows())
    agreement = agreement_for([site], masked=True)
    made = doors([site], agreement)["north"]
    made.study = agreement.hash
    assert "only under masks" in reply(made).fields["reason"]


def test_what_was_not_agreed_is_not_answered():
    site = Site("north", rows())
    agreement = agreement_for([site], questions=("moments",), max_rounds=2, max_components=2)
    made = doors([site], agreement)["north"]
    made.study = agreement.hash
    assert (
        "not part of what the owner approved"
        in reply(made, query="deviations", arrays={"mean": np.zeros(D)}).fields["reason"]
    )
    assert reply(made, number=2).kind == "terms"
    assert "approved 2 questions" in reply(made, number=3).fields["reason"]


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


def test_objections_name_what_the_policy_refuses():
    site = Site("north", rows())
    agreement = agreement_for([site], max_rounds=100, max_components=30)
    policy = Policy(
        min_rows=50,
        min_sites=2,
        masking=True,
        max_rounds=10,
        max_components=5,
        allowed_queries={"moments"},
        epsilon=1.0,
    )
    found = " ".join(objections(agreement, policy, rows=20, features=site.feature_names))
    for words in (
        "fewer rows than the 50",
        "1 sites",
        "masks",
        "curvature",
        "100 questions",
        "30 directions",
        "differential privacy",
    ):
        assert words in found
    assert objections(agreement, Policy(), rows=20, features=site.feature_names) == []
    assert "not more than the 1 components" in owners_objections(agreement, rows=1)[0]
    assert owners_objections(agreement, rows=2) == []


@given(
    st.binary(max_size=100)
    | st.text(max_size=100)
    | st.recursive(st.integers() | st.text(max_size=3), lambda i: st.dictionaries(st.text(max_size=3), i)).map(str)
)
def test_no_text_breaks_the_reading_of_terms(text):
    with pytest.raises(InvalidAgreement):
        read_agreement(text)


@given(
    st.sampled_from(
        [
            "study",
            "coordinator",
            "sites",
            "features",
            "fit",
            "questions",
            "max_rounds",
            "masked",
            "privacy",
            "min_sites",
            "on_dropout",
            "deadline",
            "version",
        ]
    ),
    st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.lists(st.integers(), max_size=2) | st.floats(),
)
def test_terms_with_a_wrong_part_are_refused_or_the_same_kind_of_terms(name, value):
    content = json.loads(agreement_for([Site("north", rows())]).text())
    content[name] = value
    with contextlib.suppress(InvalidAgreement):
        assert read_agreement(json.dumps(content)).text()


def test_no_number_of_rows_travels_before_an_owner_approves():
    """A refusal that depended on what was proposed could be asked until it told how many rows there are."""
    from dataclasses import replace

    site = Site("north", rows(n=37))
    door = doors([site])["north"]
    said = set()
    for components in (1, 36, 37, 10**9):
        agreement = replace(agreement_for([site]), fit={"components": components})
        text = np.frombuffer(agreement.text().encode(), np.uint8)
        door.study = agreement.hash
        answer = reply(door, kind="propose", arrays={"agreement": text})
        said.add((answer.kind, answer.fields.get("reason")))
    assert said == {("proposal", None)}


def test_whatever_fails_inside_is_logged_and_told_by_its_kind_alone(door):
    huge = {"query": "faspca_step", "arrays": {"z": np.full((D, 2), 1e308), **FRAME, "start": np.full((D, 2), 1e308)}}
    scalars = {"rho": 1.0, "seed": 0, "deflation": "orthogonal", "iteration": 0}
    with np.errstate(all="ignore"):
        answer = reply(door, scalars=scalars, **huge)
    assert answer.kind in {"refused", "terms"}
    deep = {}
    for _ in range(600):
        deep = {"x": deep}
    for content in (
        json.dumps({"study": "\ud800", "fit": {}}),
        json.dumps({"fit": deep}),
        agreement_for([door.site]).text().replace('"trial"', '"tri\\u001b[8mal"'),
    ):
        text = np.frombuffer(content.encode(), np.uint8)
        assert reply(door, kind="propose", arrays={"agreement": text}).kind == "refused"
    assert all(len(line.get("reason", "")) <= 1000 for line in door.audit.lines())


def test_a_policy_made_stricter_after_the_approval_counts(tmp_path):
    site = Site("north", rows(), policy=Policy(masking=False))
    agreement = agreement_for([site])
    store = FolderStore(tmp_path, KEYS[0])
    store.propose(agreement)
    store.approve(agreement)
    for policy, kind in ((Policy(), "terms"), (Policy(masking=True), "refused"), (Policy(min_sites=3), "refused")):
        door = Endpoint(Site("north", rows(), policy=policy), KEYS[0], COORDINATOR.public, store)
        door.study = agreement.hash
        assert reply(door).kind == kind


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


def test_keys_are_kept_and_known_by_their_fingerprint(tmp_path):
    made = Identity.new()
    made.save(tmp_path / "identity.key")
    assert (tmp_path / "identity.key").stat().st_mode & 0o077 == 0
    again = Identity.load(tmp_path / "identity.key")
    assert again.public == made.public
    assert again.fingerprint == fingerprint(made.public) != COORDINATOR.fingerprint
    assert signed_payload(again.sign(b"hello"), made.public, "me") == b"hello"
    (tmp_path / "other.key").write_text("no key")
    with pytest.raises(ValueError, match="not a private key"):
        Identity.load(tmp_path / "other.key")
    with pytest.raises(ValueError, match="no such key"):
        Identity.load(tmp_path / "none.key")
    with pytest.raises(InvalidSignature, match="cannot be read"):
        fingerprint("no key")
