import pytest

from helpers.study_files import make_rows, write


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = make_rows()
    write(tmp_path / "north.csv", rows[:40])
    write(tmp_path / "south.parquet", rows[40:])
    return tmp_path
