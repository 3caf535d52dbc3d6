"""Lines and files that are whole or not there, on a disk that is full, and what a killed process leaves."""

import contextlib
import os
import time

import pytest

from fedspca.files import append_line, disk_is_full, full_disk, new_file, remove_drafts
from fedspca.letters.audit import Audit


def fill(disk):
    """Leave no byte."""
    with contextlib.suppress(OSError), (disk / "ballast").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_line_is_whole_or_not_there(small_disk):
    path = small_disk / "lines"
    append_line(path, "first")
    fill(small_disk)
    with pytest.raises(OSError, match="lines") as caught:
        append_line(path, "x" * 10_000)  # some of it fits the block that was begun
    assert disk_is_full(caught.value)
    assert path.read_text() == "first\n"
    (small_disk / "ballast").unlink()
    append_line(path, "second")
    assert path.read_text() == "first\nsecond\n"


def test_a_log_goes_on_after_a_full_disk(small_disk):
    log = Audit(small_disk / "log.jsonl")
    log.add(kind="a")
    fill(small_disk)
    for _ in range(3):
        with pytest.raises(OSError, match="No space left"):
            log.add(kind="lost", words="x" * 10_000)
    assert Audit(small_disk / "log.jsonl").verify() == 1
    (small_disk / "ballast").unlink()
    log.add(kind="b")
    assert [line["kind"] for line in log.lines()] == ["a", "b"]
    assert log.verify() == 2
    assert not (small_disk / "log.jsonl.torn").exists()


def test_a_log_whose_head_finds_no_space_goes_on_too(small_disk):
    log = Audit(small_disk / "log.jsonl")
    log.add(kind="a", words="x" * 10)
    fill(small_disk)  # the line fits the block that was begun, a new file does not
    with pytest.raises(OSError, match="No space left"):
        log.add(kind="lost")
    (small_disk / "ballast").unlink()
    log.add(kind="b")
    assert log.verify() == 2


def test_a_full_disk_is_told_with_file_and_space(small_disk):
    fill(small_disk)
    with pytest.raises(OSError, match="result") as caught, new_file(small_disk / "result.json") as draft:
        draft.write_text("x")
    words = full_disk(caught.value.filename)
    assert str(small_disk) in words
    assert "result.json could not be written (0.0 MB of" in words
    assert not list(small_disk.glob(".*"))


def test_what_killed_processes_left_is_removed(tmp_path):
    for name in (".abc.part.json", ".xyz.part", "kept.part", ".young.part"):
        (tmp_path / name).write_text("")
    (tmp_path / ".model.x.part").mkdir()
    long_ago = time.time() - 7200
    for name in (".abc.part.json", ".xyz.part", "kept.part", ".model.x.part"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    assert remove_drafts(tmp_path) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == [".young.part", "kept.part"]
