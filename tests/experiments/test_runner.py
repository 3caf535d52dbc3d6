import signal
import subprocess
import sys

import numpy as np
import pytest

from fedspca.experiments.runner import Task, replaced, rounded, run, thinned
from fedspca.experiments.smoothing import smoothing_curve


def test_records_come_back_in_the_tasks_order_on_any_number_of_processes():
    tasks = [Task("x", smoothing_curve, {"mu": mu, "n_points": 3}, cost=mu) for mu in (1.0, 3.0, 2.0)]
    seen = []
    alone = run(tasks, 1, seen.append)
    together = run(tasks, 2, seen.append)
    assert alone == together
    assert [records[0]["mu"] for records in alone] == [1.0, 3.0, 2.0]
    assert len(seen) == 6


def test_a_run_that_was_interrupted_goes_on_where_it_was(tmp_path):
    tasks = [Task("x", smoothing_curve, {"mu": mu, "n_points": 3}) for mu in (1.0, 3.0, 2.0)]

    def interrupted(task):
        if task is tasks[1]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tasks, 1, interrupted, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {tasks[0].key, tasks[1].key}
    (tmp_path / tasks[0].key).write_text('[{"mu": "kept"}]')  # so that it is seen that it is not run again
    (tmp_path / tasks[1].key).write_text("[{")  # half a file is none
    found = run(tasks, 1, lambda _: None, tmp_path)
    assert [records[0]["mu"] for records in found] == ["kept", 3.0, 2.0]
    assert tasks[0].key != Task("x", smoothing_curve, {"mu": 1.5, "n_points": 3}).key


INTERRUPTED = """
import sys, time
from pathlib import Path
from fedspca.experiments.runner import Task, run
from fedspca.experiments.smoothing import smoothing_curve

def sleep(seconds):
    time.sleep(seconds)
    return []


if __name__ == "__main__":  # processes are spawned
    quick = Task("x", smoothing_curve, {"mu": 1.0, "n_points": 3}, cost=2.0)
    slow = [Task("x", sleep, {"seconds": 300}), Task("x", sleep, {"seconds": 301})]
    run([quick, *slow], 2, lambda task: print("done", flush=True), Path(sys.argv[1]))
"""


def test_ctrl_c_ends_tasks_under_way_at_once_and_keeps_what_has_ended(tmp_path):
    script, kept = tmp_path / "script.py", tmp_path / "kept"
    kept.mkdir()
    script.write_text(INTERRUPTED)
    with subprocess.Popen([sys.executable, script, kept], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"done\n"
        running.send_signal(signal.SIGINT)
        assert b"KeyboardInterrupt" in running.communicate(timeout=60)[1]  # and not after five minutes
    assert len(list(kept.iterdir())) == 1


def test_new_records_of_a_method_stand_where_the_old_ones_stood():
    old = [{"method": "A", "x": 1}, {"method": "B", "x": 2}, {"x": 3}, {"method": "A, fast", "x": 4}]
    new = [{"method": "A", "x": 5}, {"method": "A, fast", "x": 6}]
    assert [record["x"] for record in replaced(old, new, "A")] == [5, 2, 3, 6]
    with pytest.raises(ValueError, match=r"2 stored records of A and 1 new ones: .* Run all of it"):
        replaced(old, new[:1], "A")


def test_a_task_knows_which_method_it_fits():
    named = [Task("x", smoothing_curve, given, fits=fits).method for given, fits in (
        ({"method": "FASPCA"}, ""), ({"row": "ExactSPCA, λ = 190"}, ""), ({}, "FSSPCA"), ({}, ""),
    )]  # fmt: skip
    assert named == ["FASPCA", "ExactSPCA, λ = 190", "FSSPCA", ""]


def test_rounding_reaches_every_number_and_leaves_the_rest():
    value = {"a": [1.23456789, np.float64(2e-9 / 3)], "b": ("x", True, None, np.int64(7)), "c": np.array([0.1234567])}
    assert rounded(value, 3) == {"a": [1.23, 6.67e-10], "b": ["x", True, None, 7], "c": [0.123]}


def test_a_thinned_curve_keeps_its_ends():
    curve = [1.0 / k for k in range(1, 500)]
    thin = thinned(curve, most=300, points=20)
    assert thin["rounds"][0] == 1
    assert thin["rounds"][-1] == 300
    assert thin["values"] == [1.0 / k for k in thin["rounds"]]
    assert thinned([5.0])["values"] == [5.0]
