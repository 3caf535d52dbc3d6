import hashlib
import json

import numpy as np
import pytest

from fedspca import Query
from fedspca.federation import Aggregate
from fedspca.federation.journal import InvalidCheckpoint, Journal
from fedspca.letters.wire import Message, decode, encode
from fedspca.site.question import query_hash


class TestJournal:
    QUERY = Query("deviations", {"mean": np.arange(3.0)}, {"a": 1})

    @pytest.fixture
    def journal(self, tmp_path):
        made = Journal(tmp_path / "run", "what")
        made.keep(1, self.QUERY, Aggregate({"x": np.arange(4.0)}, 3, 10, 20), Message("state", {"round": 5}))
        return made

    def test_a_round_is_kept(self, journal):
        answer, after = journal.kept(1, self.QUERY)
        assert np.array_equal(answer["x"], np.arange(4.0))
        assert (answer.n_sites, answer.bytes_up, answer.bytes_down) == (3, 10, 20)
        assert after.fields == {"round": 5}
        assert len(journal) == 1

    def test_another_question_is_refused(self, journal):
        with pytest.raises(InvalidCheckpoint, match="asks something else"):
            journal.kept(1, Query("deviations", {"mean": np.arange(1.0, 4.0)}, {"a": 1}))

    def test_a_file_that_is_cut_off_or_altered_is_refused(self, journal):
        path = journal.folder / "000001.round"
        whole = path.read_bytes()
        for at in (0, 10, 40, 100, len(whole) - 1):
            for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
                path.write_bytes(damaged)
                with pytest.raises(InvalidCheckpoint, match="cut off or altered"):
                    journal.kept(1, self.QUERY)

    def test_a_round_under_another_number_is_refused(self, journal):
        (journal.folder / "000001.round").rename(journal.folder / "000002.round")
        with pytest.raises(InvalidCheckpoint, match="another round"):
            journal.kept(2, self.QUERY)

    def test_a_journal_of_something_else_is_refused(self, journal):
        with pytest.raises(InvalidCheckpoint, match="other data, settings or versions"):
            Journal(journal.folder, "else")
        (journal.folder / "study.json").write_text("{")
        with pytest.raises(InvalidCheckpoint, match="cut off"):
            Journal(journal.folder, "what")

    def test_the_files_are_named_by_round_and_for_the_owner_only(self, journal):
        assert sorted(path.name for path in journal.folder.iterdir()) == ["000001.round", "study.json"]
        assert (journal.folder / "000001.round").stat().st_mode & 0o077 == 0
        assert journal.folder.stat().st_mode & 0o077 == 0
        assert json.loads((journal.folder / "study.json").read_text()) == {"version": 1, "identity": "what"}

    def test_a_file_is_its_checksum_and_a_message(self, journal):
        content = (journal.folder / "000001.round").read_bytes()
        assert content[:32] == hashlib.sha256(content[32:]).digest()
        message = decode(content[32:])
        assert message.kind == "round"
        assert message.fields == {"number": 1, "query": query_hash(self.QUERY), "numbers": [3, 10, 20]}
        assert set(message.arrays) == {"x", "after:state"}

    def test_a_lost_site_and_a_round_without_a_state_are_kept_too(self, journal):
        journal.keep(2, self.QUERY, None, Message("state", {"lost": "a"}))
        answer, after = journal.kept(2, self.QUERY)
        assert answer is None
        assert after.fields == {"lost": "a"}
        journal.keep(3, self.QUERY, Aggregate({"x": np.ones(2)}, 2, 1, 1))
        answer, after = journal.kept(3, self.QUERY)
        assert list(answer.arrays) == ["x"]
        assert after is None

    def test_sums_that_come_back_can_be_written_to(self, journal):
        answer, _ = journal.kept(1, self.QUERY)
        answer["x"][0] = 7.0
        assert journal.kept(1, self.QUERY)[0]["x"][0] == 0.0

    def test_rounds_are_counted_up_to_the_first_gap(self, journal):
        for number in (2, 3, 5):
            journal.keep(number, self.QUERY, None)
        assert len(journal) == 3
        assert len(Journal(journal.folder / "empty", "what")) == 0

    def test_a_journal_is_opened_again_by_the_same_fit_only(self, journal):
        assert len(Journal(journal.folder, "what")) == 1
        path = journal.folder / "study.json"
        for content in ({"version": 2, "identity": "what"}, {"version": 1}, {"version": 1, "identity": "what", "x": 1}):
            path.write_text(json.dumps(content))
            with pytest.raises(InvalidCheckpoint, match="other data, settings or versions"):
                Journal(journal.folder, "what")

    def test_a_folder_deep_down_is_made_and_one_that_is_there_is_used(self, tmp_path):
        folder = tmp_path / "a" / "b" / "c"
        Journal(folder, "größe")
        assert json.loads((folder / "study.json").read_text(encoding="utf-8"))["identity"] == "größe"
        (tmp_path / "there").mkdir()
        Journal(tmp_path / "there", "what")

    @pytest.mark.parametrize(
        ("message", "words"),
        [
            (Message("letter", {"number": 1}), "another round"),
            (Message("round", {}), "another round"),
            (Message("round", {"number": 2}), "another round"),
            (None, "not a message"),
        ],
    )
    def test_a_whole_file_of_something_else_is_refused(self, journal, message, words):
        content = encode(message) if message else b"other bytes altogether"
        (journal.folder / "000001.round").write_bytes(hashlib.sha256(content).digest() + content)
        with pytest.raises(InvalidCheckpoint, match=words):
            journal.kept(1, self.QUERY)

    @pytest.mark.parametrize("fields", [{"query": 3, "numbers": [1, 2, 3]}, {"query": "x", "numbers": [1, 2]}])
    def test_a_round_that_does_not_say_what_was_asked_or_answered_is_refused(self, journal, fields):
        self.rewrite(journal, Message("round", {"number": 1, **fields}))
        with pytest.raises(InvalidCheckpoint, match="does not say what was asked and answered"):
            journal.kept(1, self.QUERY)

    def test_a_state_that_is_no_message_is_refused(self, journal):
        fields = {"number": 1, "query": query_hash(self.QUERY), "numbers": [1, 2, 3]}
        self.rewrite(journal, Message("round", fields, {"after:state": np.arange(9, dtype=np.uint8)}))
        with pytest.raises(InvalidCheckpoint, match=r"000001\.round"):
            journal.kept(1, self.QUERY)

    def rewrite(self, journal, message):
        """Write a whole file with the right checksum, as no damage does."""
        content = encode(message)
        (journal.folder / "000001.round").write_bytes(hashlib.sha256(content).digest() + content)
