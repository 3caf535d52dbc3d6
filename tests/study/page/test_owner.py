"""What an owner reads and decides on the page."""

from dataclasses import replace

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from fedspca.door.agreement import roster_phrase
from fedspca.study.page.owner import OwnerPage
from fedspca.study.run import run_study


@pytest.fixture
def north(between):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    return OwnerPage(sites["north"]), sites["north"], folder.agreement()


def form(agreement, **other):
    return {"hash": agreement.hash, "read": "yes", "phrase": roster_phrase(agreement), **other}


def test_it_shows_what_is_asked_who_takes_part_and_what_leaves(north):
    page, _, agreement = north
    parts = page.parts()
    for words in ("No row leaves this machine", "Who takes part", "east, south", roster_phrase(agreement)):
        assert words in parts["study"]
    assert "You have not approved" in parts["decision"]
    assert "Not connected" in parts["standing"]


def test_it_is_read_in_order(north):
    said = north[0].parts()["study"]
    questions, list_, symbols = (
        said.index(words) for words in ("in answer to these questions", "<li>gram:", "n is the")
    )
    assert questions < list_ < symbols


def test_the_owner_approves_with_the_phrase_and_withdraws(north):
    page, site, agreement = north
    page.act("approve", form(agreement, phrase=roster_phrase(agreement).upper().replace(" ", "  ")))
    assert site.store.approved(agreement.hash).hash == agreement.hash
    assert "You have approved" in page.parts()["decision"]
    page.act("withdraw", {})
    assert site.store.approved(agreement.hash) is None


@pytest.mark.parametrize("again", [True, False])
def test_withdrawing_leaves_no_earlier_version_alive(north, again):
    """A coordinator could propose another version, and after the withdrawal ask the first one's questions."""
    page, site, agreement = north
    page.act("approve", form(agreement))
    later = replace(agreement, max_rounds=agreement.max_rounds + 1)
    site.store.propose(later)
    if again:
        page.act("approve", form(later))
    decision = page.parts()["decision"]
    assert "still answers another version" in decision
    assert agreement.hash in decision
    assert 'id="withdraw"' in decision
    assert page.act("withdraw", {}).startswith("Withdrawn. This site answers no study now")
    assert site.approvals() == []
    assert "still answers" not in page.parts()["decision"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"phrase": "aaaa bbbb"}, "not the roster phrase"),
        ({"phrase": ""}, "not the roster phrase"),
        ({"read": ""}, "Tick the box"),
        ({"hash": "0" * 64}, "Another study was proposed"),
    ],
)
def test_nothing_else_approves(north, other, words):
    page, site, agreement = north
    with pytest.raises(ValueError, match=words):
        page.act("approve", form(agreement, **other))
    with pytest.raises(ValueError, match="no action"):
        page.act("delete", form(agreement))
    assert site.store.approved(agreement.hash) is None


def test_hostile_words_in_the_log_are_text(north):
    page, site, _ = north
    site.audit().add(verdict="refused", kind="flower", reason="<img src=x onerror=alert(1)>")
    assert "&lt;img src=x" in page.parts()["log"]
    assert "<img" not in page.parts()["log"]


def test_a_log_that_was_changed_is_called_broken(north):
    page, site, _ = north
    path = site.path / "log.jsonl"
    path.write_text(path.read_text().replace("propose", "pr0pose") + "\n")
    assert "THE LOG IS BROKEN" in page.parts()["log"]
