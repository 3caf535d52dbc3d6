import json

import pytest

from fedspca.letters.audit import Audit, BrokenLog


@pytest.fixture
def log(tmp_path):
    audit = Audit(tmp_path / "log.jsonl")
    for number in range(4):
        audit.add(verdict="answered", query=f"question {number}")
    return tmp_path / "log.jsonl"


def test_a_log_is_whole_and_goes_on(log):
    heard = []
    audit = Audit(log, heard.append)
    head = audit.add(verdict="refused", reason="no")
    assert Audit(log).verify() == 5
    assert Audit(log).head == head
    assert [line["number"] for line in heard] == [5]
    assert [line["number"] for line in audit.lines()] == [1, 2, 3, 4, 5]


def rewritten(log, change):
    lines = log.read_text().splitlines()
    log.write_text("\n".join(change(lines)) + "\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [line.replace("question 1", "question 7") for line in lines], "line 2: the line was changed"),
        (lambda lines: lines[1:], "line 1: a line before it"),
        (lambda lines: lines[:1] + lines[2:], "line 2: a line before it"),
        (lambda lines: [lines[0], lines[0], *lines[1:]], "line 2: a line before it"),
        (lambda lines: lines[:2], "removed from its end"),
        (lambda lines: [*lines, "{}"], "line 5: it is not a line"),
        (lambda lines: [*lines, "x"], "line 5: it is not a line"),
    ],
)
def test_what_was_done_to_a_log_is_found(log, change, words):
    rewritten(log, change)
    with pytest.raises(BrokenLog, match=words):
        Audit(log).verify() if "not a line" not in words else list(Audit(log).lines())


def test_a_line_made_to_fit_its_own_hash_breaks_the_next(log):
    from fedspca.letters.audit import line_hash

    def forge(lines):
        line = json.loads(lines[1]) | {"query": "something else"}
        return [lines[0], json.dumps(line | {"hash": line_hash(line)}), *lines[2:]]

    rewritten(log, forge)
    with pytest.raises(BrokenLog, match="line 3: a line before it"):
        Audit(log).verify()


def test_a_site_killed_between_a_line_and_its_head_is_not_accused(log):
    head = log.with_name("log.jsonl.head")
    before = head.read_text()
    Audit(log).add(verdict="answered")
    head.write_text(before)
    assert Audit(log).verify() == 5
