import json
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedspca import Policy, Site
from fedspca.door.endpoint import Endpoint
from fedspca.door.store import FolderStore
from fedspca.letters.identity import Identity, signed_payload
from fedspca.letters.wire import Message, decode, encode
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
