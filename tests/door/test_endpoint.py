import errno
import json
import logging
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedspca import Policy, Site
from fedspca.door.endpoint import Endpoint
from fedspca.door.replay import Replays
from fedspca.door.session import UNFIT
from fedspca.door.store import FolderStore, MemoryStore
from fedspca.letters.audit import START
from fedspca.letters.identity import Identity, signed_payload
from fedspca.letters.protocol import introduction
from fedspca.letters.wire import Message, decode, encode
from fedspca.site.errors import InvalidData
from fedspca.site.question import Query
from helpers.door import FRAME, RUN, D, letter, reply, rows
from helpers.letters import COORDINATOR, KEYS, agreement_for, doors


@pytest.fixture
def door():
    site = Site("north", rows())
    agreement = agreement_for([site])
    made = doors([site], agreement)["north"]
    made.study = agreement.hash
    return made


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


def test_no_number_of_rows_travels_before_an_owner_approves():
    """A refusal that depended on what was proposed could be asked until it told how many rows there are."""
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


# -- what the log says, and what a reply says of itself ----------------------------------------------------------------


def last(door):
    return list(door.audit.lines())[-1]


def sent(door, message, signer=COORDINATOR):
    """The reply to a message with exactly these fields."""
    return decode(signed_payload(door.handle(signer.sign(encode(message))), door.identity.public, "the site"))


def test_the_log_and_the_reply_name_the_question(door):
    asked = letter(door)
    first = door.handle(asked)
    answer = decode(signed_payload(first, door.identity.public, "the site"))
    heading = {"study": door.study, "run": RUN, "round": 1}
    assert answer.fields == {**heading, "query": "moments", "sender": "north", "log": START}
    line = last(door)
    assert {name: line[name] for name in ("kind", "query", *heading)} == {"kind": "ask", "query": "moments", **heading}
    assert (line["reply"], line["bytes_in"]) == ("terms", len(asked))
    assert len(line["digest"]) == 64
    head = door.audit.head
    assert reply(door, number=2).fields["log"] == head
    refused = reply(door, number=3, query="rows")
    told = {**heading, "round": 3, "query": "rows", "error": "InvalidQuery", "sender": "north"}
    assert {name: text for name, text in refused.fields.items() if name != "reason"} == told


def test_a_repeated_reply_is_logged_with_its_digest(door):
    door.handle(letter(door))
    door.handle(letter(door))
    first, again = door.audit.lines()
    assert (again["verdict"], again["round"], len(again["digest"])) == ("repeated", 1, 64)
    assert first["verdict"] == "answered"


@pytest.mark.parametrize(
    ("value", "logged"),
    [
        (2**63 - 1, 2**63 - 1),
        (-(2**63) + 1, -(2**63) + 1),
        (2**63, str(2**63)),
        (-(2**63), str(-(2**63))),
        ("x" * 70, "x" * 64),
        (10**80, "1" + "0" * 63),
        ([1], None),
    ],
)
def test_the_log_cuts_what_a_hostile_letter_says(door, value, logged):
    assert reply(door, query=value).kind == "refused"
    assert last(door).get("query") == logged


def test_a_letter_of_exactly_the_longest_length_is_read(door):
    asked = letter(door)
    door._max_bytes = len(asked)
    assert decode(signed_payload(door.handle(asked), door.identity.public, "the site")).kind == "terms"
    door._max_bytes = len(asked) - 1
    refused = decode(signed_payload(door.handle(asked), door.identity.public, "the site"))
    assert refused.fields["error"] == "WireError"


def test_who_did_not_sign_is_named(door):
    reason = reply(door, signer=Identity.new()).fields["reason"]
    assert "the coordinator" in reason
    assert "the coordinatort" not in reason


# -- what fails -------------------------------------------------------------------------------------------------------


class Troubled(MemoryStore):
    """A store whose disk fails when it is told to."""

    trouble = None

    def save(self, study, state):
        if self.trouble is not None:
            raise self.trouble
        super().save(study, state)


@pytest.fixture
def troubled():
    site = Site("north", rows())
    agreement, store = agreement_for([site]), Troubled()
    store.propose(agreement)
    door = Endpoint(site, KEYS[0], COORDINATOR.public, store)
    door.study = agreement.hash
    return door, store


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_the_owners_to_mend_and_nothing_leaves(troubled, number):
    door, store = troubled
    store.trouble = OSError(number, "no space")
    with pytest.raises(OSError, match="no space"):
        door.handle(letter(door))
    store.trouble = None
    assert reply(door).kind == "terms"
    assert int(door.site.snapshot()["answered"]) == 1


def test_another_failure_is_logged_here_and_told_by_its_kind_alone(troubled, caplog):
    door, store = troubled
    store.trouble = OSError(errno.EIO, "sector 7 of the disk with the patients")
    with caplog.at_level(logging.ERROR, "fedspca.door.endpoint"):
        answer = reply(door)
    assert answer.kind == "refused"
    assert (answer.fields["error"], answer.fields["reason"]) == ("SiteError", "it could not be computed.")
    assert [record.getMessage() for record in caplog.records] == ["A letter could not be answered"]
    assert "sector 7" in caplog.text
    assert (last(door)["verdict"], last(door)["round"]) == ("refused", 1)
    store.trouble = None
    assert reply(door).kind == "terms"
    assert int(door.site.snapshot()["answered"]) == 1


def test_terms_that_cannot_be_computed_are_an_answer_that_says_no_more(door, monkeypatch):
    def failing(query, purpose=None):
        raise ZeroDivisionError("row 7")

    monkeypatch.setattr(door.site, "answer", failing)
    answer = reply(door)
    assert answer.kind == "refused"
    told = {name: answer.fields[name] for name in ("query", "error", "reason")}
    assert told == {"query": "moments", "error": "SiteError", "reason": "it could not be computed."}
    line = last(door)
    assert (line["verdict"], line["failed"], line["failures"]) == ("refused", True, 1)
    monkeypatch.undo()
    assert reply(door).kind == "refused"  # the same letter, the same bytes
    assert last(door)["verdict"] == "repeated"
    assert reply(door, number=2).kind == "terms"
    assert "failed" not in last(door)


# -- runs, rounds and restarts ----------------------------------------------------------------------------------------


def reopened(door, **given):
    """The door of the same site after a restart, with what its store kept."""
    site = Site("north", rows(), feature_names=door.site.feature_names)
    made = Endpoint(site, door.identity, COORDINATOR.public, door._store, **given)
    made.study = door.study
    return made


def test_a_restart_changes_nothing(door):
    assert reply(door, number=1, run="a" * 32).kind == "terms"
    assert reply(door, number=1).kind == "terms"
    first = door.handle(letter(door, number=2))
    again = reopened(door)
    assert again.handle(letter(door, number=2)) == first
    assert last(again)["verdict"] == "repeated"
    assert int(again.site.snapshot()["answered"]) == 3
    other = reply(again, number=2, query="deviations", arrays={"mean": np.zeros(D)})
    assert "answered before" in other.fields["reason"]
    assert "round 1 is over; round 2 was asked" in reply(again, number=1).fields["reason"]
    assert "the run is over" in reply(again, number=3, run="a" * 32).fields["reason"]
    assert again._session.secrets.keys() == door._session.secrets.keys()
    assert any(name.startswith("study:") for name in again._session.secrets)


def test_what_is_kept_has_names_that_later_releases_read(door):
    reply(door)
    kept = door._store.load(door.study)
    assert kept.kind == "state"
    assert kept.fields.keys() == {"run", "round", "runs", "digests"}
    assert {name.partition(":")[0] for name in kept.arrays} == {"site", "secret", "reply"}
    assert (kept.fields["run"], kept.fields["round"], kept.fields["runs"]) == (RUN, 1, [RUN])


def test_a_new_run_begins_at_nothing(door):
    reply(door, number=4)
    door._session.secrets |= {"of the run": np.zeros(1), "study:more": np.zeros(1)}
    over = reply(door, number=0, run="c" * 32).fields["reason"]
    assert "round 0 is over; round 0 was asked" in over
    assert "of the run" not in door._session.secrets
    assert "study:more" in door._session.secrets


def test_a_new_run_forgets_the_state_of_the_rows(door, monkeypatch):
    reply(door)
    begun = []
    monkeypatch.setattr(door.site, "begin", lambda: begun.append(True))
    reply(door, number=2)
    assert begun == []
    reply(door, run="c" * 32)
    assert begun == [True]


def test_there_are_a_thousand_runs_at_most(door):
    reply(door)
    door._session.runs[:] = [f"{number:032x}" for number in range(999)]
    assert reply(door, run="e" * 32).kind == "terms"
    assert len(door._session.runs) == 1000
    assert "the run is over" in reply(door, run="f" * 32).fields["reason"]


@pytest.mark.parametrize(("field", "length"), [("study", 65), ("run", 33)])
def test_names_that_are_too_long_are_not_looked_up(door, field, length):
    for kind in ("ask", "hello") if field == "study" else ("ask",):
        answer = reply(door, kind=kind, **{field: "a" * length})
        assert answer.fields["error"] == "WireError"
        assert f"at most {length - 1} letters" in answer.fields["reason"]


def test_two_studies_are_told_apart(door):
    first = door.study
    other = replace(agreement_for([door.site]), study="another")
    door._store.propose(other)
    assert reply(door).kind == reply(door, number=2).kind == "terms"
    door.study = other.hash
    assert reply(door, number=1).kind == "terms"
    assert int(door.site.snapshot()["answered"]) == 1  # of this study
    door.study = first
    assert reply(door, number=3).kind == "terms"
    assert int(door.site.snapshot()["answered"]) == 3
    assert "its owner has not approved" in reply(door, study="0" * 64).fields["reason"]


# -- hello and proposals ----------------------------------------------------------------------------------------------


def test_hello_says_who_is_there_and_whether_the_study_is_approved(door):
    for study, state in ((door.study, "approved"), ("0" * 64, "not approved"), ("", "not approved")):
        answer = sent(door, Message("hello", {"study": study}))
        assert answer.kind == "hello"
        heading = {"study": study, "sender": "north"}
        said = {name: value for name, value in answer.fields.items() if name != "log"}
        assert said == {"state": state, "features": D, **introduction(), **heading}
        assert (last(door)["verdict"], last(door)["reply"], last(door)["kind"]) == ("answered", "hello", "hello")


def text_of(agreement):
    return np.frombuffer(agreement.text().encode(), np.uint8)


def proposed(door, agreement, **fields):
    return reply(door, kind="propose", arrays={"agreement": text_of(agreement)}, **fields)


def test_a_proposal_is_kept_and_its_approval_is_sent(tmp_path):
    site = Site("north", rows())
    store, agreement = FolderStore(tmp_path, KEYS[0]), agreement_for([site])
    door = Endpoint(site, KEYS[0], COORDINATOR.public, store)
    door.study = agreement.hash
    answer = proposed(door, agreement)
    assert (answer.kind, answer.fields["state"], answer.arrays) == ("proposal", "not approved", {})
    assert (answer.fields["agreement"], answer.fields["protocol"]) == (agreement.hash, introduction()["protocol"])
    assert [each.hash for each in store.studies()] == [agreement.hash]
    store.approve(agreement)
    answer = proposed(door, agreement)
    assert (answer.kind, answer.fields["state"], answer.fields["agreement"]) == ("proposal", "approved", agreement.hash)
    assert answer.arrays["approval"].tobytes() == store.approval(agreement.hash)


def test_a_proposal_in_another_protocol_is_not_read(door):
    reason = proposed(door, agreement_for([door.site]), protocol=99, software="9.9").fields["reason"]
    assert reason.startswith("the coordinator runs fedspca 9.9, which speaks protocol 99")


@pytest.mark.parametrize("form", [lambda text: text.astype(np.float64), lambda text: text[None, :]])
def test_a_proposal_of_another_form_is_none(door, form):
    arrays = {"agreement": form(text_of(agreement_for([door.site])))}
    answer = reply(door, kind="propose", arrays=arrays)
    assert (answer.fields["error"], answer.fields["reason"]) == ("InvalidAgreement", "A proposal without an agreement.")


def test_a_proposal_must_name_this_coordinator_and_this_site():
    site = Site("north", rows())
    door = doors([site])["north"]
    door.study, agreement = "", agreement_for([site])
    stranger = Identity.new().public
    cases = {
        "names another coordinator": replace(agreement, coordinator=stranger),
        "does not name site 'north' with its own key": replace(agreement, sites={"north": stranger}),
        "policy requires masks": agreement,
    }
    site.policy = Policy(masking=True)
    for words, agreement in cases.items():
        answer = proposed(door, agreement)
        assert answer.kind == "refused"
        assert words in answer.fields["reason"]
        assert door._store.approved(agreement.hash) is None
    assert answer.fields["reason"].endswith("the study has none.")


def test_terms_that_do_not_say_what_is_asked_are_refused():
    def work_of(agreement):
        if agreement.study == "unclear":
            raise ValueError("y" * 3000)
        return lambda ask: None

    site = Site("north", rows())
    masked = agreement_for([site], masked=True)
    for replays, agreement, kind in (
        (Replays(work_of), replace(masked, study="unclear"), "refused"),
        (Replays(work_of), masked, "proposal"),
        (Replays(work_of), replace(agreement_for([site]), study="unclear"), "proposal"),
        (None, replace(masked, study="unclear"), "proposal"),
    ):
        door = Endpoint(site, KEYS[0], COORDINATOR.public, MemoryStore(), replays=replays)
        door.study = agreement.hash
        answer = proposed(door, agreement)
        assert answer.kind == kind
        if kind == "refused":
            assert answer.fields["reason"].startswith("the terms do not say what is asked: yyy")
            assert len(answer.fields["reason"]) == len(last(door)["reason"]) == 1000


def test_a_study_with_masks_is_not_taken_where_covariates_tell_of_few_rows(caplog):
    site = Site("north", rows())
    door = doors([site])["north"]
    door.study = ""
    site.disclosed = "the covariate 'sex=F' is of one row"
    plain, masked = agreement_for([site]), agreement_for([site], masked=True)
    assert proposed(door, plain).kind == "proposal"
    assert caplog.records == []
    answer = proposed(door, masked)
    assert (answer.kind, answer.fields["reason"]) == ("refused", UNFIT)
    told = [record.getMessage() for record in caplog.records]
    assert told == ["A study was not taken: the covariate 'sex=F' is of one row"]  # for the owner alone
    site.disclosed = None
    assert proposed(door, masked).kind == "proposal"


class TestArranged:
    """Rows are seen over a study's features, in its order."""

    names = ("a", "b", "c", "d", "e")

    def site(self, names):
        columns = [self.names.index(name) for name in names]
        return Site("north", rows()[:, columns], feature_names=names)

    @pytest.fixture
    def door(self):
        seen = []

        def arrange(agreement):
            seen.append(agreement)
            return self.site(self.names if agreement is None else agreement.features)

        made = Endpoint(self.site(self.names), KEYS[0], COORDINATOR.public, MemoryStore(), arrange=arrange)
        made.seen, made.study = seen, ""
        return made

    def propose(self, door, names, **fit):
        agreement = replace(agreement_for([self.site(self.names)]), features=names)
        agreement = replace(agreement, fit={**agreement.fit, **fit})
        door.study = agreement.hash
        return proposed(door, agreement)

    def test_as_a_study_lists_them(self, door):
        assert self.propose(door, ("c", "a")).kind == "proposal"
        assert door.site.feature_names == ("c", "a")
        assert np.allclose(reply(door).arrays["sums"], rows()[:, [2, 0]].sum(axis=0))
        assert self.propose(door, self.names[::-1]).kind == "proposal"  # all of them, in another order
        assert door.site.feature_names == self.names[::-1]

    def test_only_if_they_are_not_seen_so_already(self, door):
        assert self.propose(door, self.names).kind == "proposal"
        assert door.seen == []

    def test_only_if_all_are_there(self, door):
        answer = self.propose(door, ("a", "b", "z"))
        assert answer.kind == "refused"
        assert door.site.feature_names == self.names
        assert door.seen == [None]

    def test_again_after_another_study(self, door):
        first = agreement_for([self.site(("b",))])
        door._store.propose(first)
        assert self.propose(door, ("c", "a")).kind == "proposal"
        assert reply(door).kind == "terms"
        door.study = first.hash
        assert np.allclose(reply(door).arrays["sums"], rows()[:, [1]].sum(axis=0))

    def test_and_as_it_prepares_them(self, door):
        assert self.propose(door, self.names, transform="log").kind == "proposal"
        assert len(door.seen) == 2
        assert self.propose(door, self.names, transform="log").kind == "proposal"
        assert len(door.seen) == 2

    def test_without_saying_why_it_cannot_be(self, door, caplog):
        def failing(agreement):
            if agreement is None:
                return self.site(self.names)
            raise InvalidData("row 7 has no age")

        door._arrange = failing
        answer = self.propose(door, ("a",))
        assert answer.kind == "refused"
        assert answer.fields["reason"] == (
            "its covariates or weights are not as the study needs them; the owner can read why."
        )
        told = "The rows cannot be seen as a study asks: row 7 has no age"
        assert [record.getMessage() for record in caplog.records] == [told]

    def test_or_as_they_are_where_nothing_arranges_them(self, door):
        door._arrange = None
        assert "feature" in self.propose(door, ("a",)).fields["reason"]


def test_a_run_that_was_ended_stays_so_beyond_a_restart():
    site = Site("north", rows())
    agreement = agreement_for([site], masked=True)
    door = doors([site], agreement)["north"]
    door.study, door._replays = agreement.hash, Replays(lambda agreement: lambda ask: ask(Query("moments")))
    assert reply(door, kind="keys").kind == "keys"
    assert reply(door, kind="keys", number=2).kind == "keys"
    assert "failed" not in last(door)
    reason = "the agreed study is not over: it asks 'moments' next."
    assert reply(door, kind="finish", number=3).fields["reason"] == reason
    for each in (door, reopened(door, replays=door._replays)):
        for number in (2, 4):
            answer = reply(each, kind="keys", number=number)
            assert (answer.kind, answer.fields["reason"]) == ("refused", reason)
    assert "secret:ended" in door._store.load(door.study).arrays
    assert reply(door, kind="keys", number=1, run="d" * 32).kind == "keys"  # in another run it may be asked again
