import numpy as np
import pytest

from fedspca import Query
from fedspca.federation.journal import InvalidCheckpoint, Journal
from fedspca.letters.wire import Message


class TestJournal:
    QUERY = Query("deviations", {"mean": np.arange(3.0)}, {"a": 1})

    @pytest.fixture
    def journal(self, tmp_path):
        from fedspca.federation import Aggregate

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
