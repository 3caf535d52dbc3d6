from helpers.commands import fedspca
from helpers.small_study import FIT


def test_the_prepared_copies_can_be_seen_and_deleted(study, monkeypatch):
    monkeypatch.setattr("fedspca.data.prepare.IN_MEMORY", 0)
    assert fedspca(*FIT, "--cache", "cache", "-o", "m").code == 0
    assert "2 prepared copies" in fedspca("cache", "--cache", "cache").out
    assert "Deleted 2" in fedspca("cache", "--cache", "cache", "--clear").out
    assert "0 prepared copies" in fedspca("cache", "--cache", "cache").out
