"""Every example runs, and says what it should."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SAYS = {
    "fit": r"Component 2 adds \d+% of the variance[\s\S]*stopped because",
    "masks": r"differ from those of pooled rows by at most \de-(0[89]|1\d)",
    "privacy": r"Features found: \[0, 1, 2, 3\]\nSpent: epsilon = (0\.9\d\d|1\.000) of 1\.0",
    "path": r"keeps 90 % of that has \d+ weights",
    "files": r"2 files, 178 rows: the components capture \d\d%",
}


def test_every_example_is_run_and_listed():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS)
    listed = re.findall(r"\[(\w+)\.py\]", (EXAMPLES / "README.md").read_text(encoding="utf-8"))
    assert set(listed) == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(SAYS[name], done.stdout), done.stdout
