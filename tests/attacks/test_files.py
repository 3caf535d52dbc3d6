"""What a folder must withstand: two processes, a loss of power, a cut log, files that swell, texts that compute."""

import csv
import gzip
import json
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest

from fedspca import files
from fedspca.cli.write import TableWriter
from fedspca.data import text
from fedspca.data.formats import TextOptions
from fedspca.data.schema import Schema
from fedspca.dp.accounting import Budget, Cost
from fedspca.dp.ledger import BudgetSpent, Ledger
from fedspca.federation.base import SchemaMismatch
from fedspca.files import Locked, only_one, spreadsheet_safe
from fedspca.letters import audit as audit_module
from fedspca.letters.audit import Audit, BrokenLog
from fedspca.site.errors import InvalidData
from fedspca.site.question import Query, query_hash

PRICE = Cost(8.0, 0.0)  # at ε = 1, δ = 1e-6 the budget pays for a few of these


def spend(path, barrier, results):
    ledger = Ledger(Budget(1.0, 1e-6), path)
    barrier.wait()
    paid = 0
    for number in range(6):
        try:
            ledger.charge(PRICE, "x", f"{os.getpid()}-{number}")
            paid += 1
        except BudgetSpent:
            pass
    results.put(paid)


def race(path):
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=spend, args=(path, barrier, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    paid = sum(results.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join()
    return paid


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_two_processes_do_not_overspend(tmp_path):
    alone = Ledger(Budget(1.0, 1e-6))
    allowed = 0
    while True:
        try:
            alone.charge(PRICE, "x", str(allowed))
        except BudgetSpent:
            break
        allowed += 1
    assert 1 <= allowed < 12
    for number in range(3):
        path = tmp_path / f"{number}.jsonl"
        assert race(path) == allowed
        assert Ledger(Budget(1.0, 1e-6), path).spent() <= 1.0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_without_the_lock_they_would(tmp_path, monkeypatch):
    """Both read the same lines, and both find room for one release more; or they break each other's chain."""
    from contextlib import nullcontext

    monkeypatch.setattr(audit_module, "only_one", lambda path: nullcontext())
    first, second = (Ledger(Budget(1.0, 1e-6), tmp_path / "l.jsonl") for _ in range(2))
    monkeypatch.setattr(Audit, "_refresh", lambda self: 0)
    first.charge(PRICE, "x", "1")
    second.charge(PRICE, "x", "2")
    with pytest.raises(BrokenLog):
        Ledger(Budget(1.0, 1e-6), tmp_path / "l.jsonl")


def test_one_guard_a_folder(tmp_path):
    lock = tmp_path / "guard.lock"
    with only_one(lock, wait=False), pytest.raises(Locked), only_one(lock, wait=False):
        pass
    with only_one(tmp_path / "guard.lock", wait=False):
        pass  # the lock goes with whoever held it


def test_a_torn_line_is_set_aside_and_the_log_goes_on(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Audit(path)
    log.add(kind="a")
    log.add(kind="b")
    with path.open("a") as file:
        file.write('{"number": 3, "kind": "c", "ti')  # the power went
    again = Audit(path)
    assert again.verify() == 2
    again.add(kind="d")
    lines = list(Audit(path).lines())
    assert [line["kind"] for line in lines] == ["a", "b", "d"]
    assert "set aside" in lines[-1]["torn"]
    assert '"kind": "c"' in (tmp_path / "log.jsonl.torn").read_text()
    assert again.verify() == 3


def test_a_tail_that_is_cut_off_with_its_head_is_missed_by_those_who_hold_a_head(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Audit(path)
    heads = [log.add(kind=kind) for kind in "abcd"]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]))
    (tmp_path / "log.jsonl.head").write_text(heads[1])
    cut = Audit(path)
    assert cut.verify() == 2  # by itself it looks whole
    assert cut.verify(heads[:2]) == 2
    with pytest.raises(BrokenLog, match="others hold the head"):
        cut.verify(heads)


def test_what_is_written_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    forced = []
    monkeypatch.setattr(
        files.os, "fsync", lambda handle: forced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
    )
    with files.new_file(tmp_path / "x") as draft:
        draft.write_text("content")
    assert forced == [str(draft), str(tmp_path)]
    forced.clear()
    Audit(tmp_path / "log.jsonl").add(kind="a")
    assert str(tmp_path / "log.jsonl") in forced


def test_fingerprints_are_not_cut():
    assert len(query_hash(Query("moments"))) == 64


def test_a_small_file_that_swells_is_not_read_on(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "UNPACKED", 1 << 20)
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"a,b\n" + b"0,0\n" * (1 << 20))
    assert path.stat().st_size < 1 << 14
    with pytest.raises(InvalidData, match="unpacked, it is more than"):
        for _ in text.TextTable(path, TextOptions())._stream(["a", "b"], ()):
            pass


def test_a_million_columns_are_refused(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{j}" for j in range(10**6)) + "\n" + ",".join("1" for _ in range(10**6)) + "\n")
    with pytest.raises(InvalidData, match="more than 250000 columns"):
        text.TextTable(path, TextOptions())


FORMULAS = [
    "=1+1",
    " =1+1",
    "\n=1+1",
    "\ufeff=1+1",
    "\u200b=1",
    "＝1+1",
    "＋1",
    "＠x",
    "@x",
    "\t=x",
    "-x",
    "+x",
    "\u00a0=x",
    "\x00=x",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_what_a_spreadsheet_would_compute_is_marked(formula, tmp_path):
    assert spreadsheet_safe(formula) == f"'{formula}"
    with TableWriter(tmp_path / "t.csv", [formula], "id") as table:
        table.add(np.ones((1, 1)), np.array([formula], dtype=object))
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        written = [cell for row in csv.reader(file) for cell in row if "x" in cell or "1" in cell]
    assert [cell for cell in written if not cell.startswith("'")] == ["1.0"]


@pytest.mark.parametrize("plain", ["age", "-5", "1e-3", "x = 1", "", "größe", "a-b"])
def test_what_is_no_formula_stays(plain):
    assert spreadsheet_safe(plain) == plain


def test_deep_json_is_no_schema():
    deep = "[" * 100_000
    for hostile in (deep, '{"features": ' + deep, json.dumps({"features": [{"name": "\ud800", "dtype": "x"}]}), "[]"):
        with pytest.raises(SchemaMismatch):
            Schema.from_json(hostile)
