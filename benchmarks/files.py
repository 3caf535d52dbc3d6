"""Memory and time of a fit to a file larger than memory may be: ``python -m benchmarks.files [gigabytes]``.

The file holds the rows of three sites, with age, sex and batch, which move half of the features. ``fedspca fit --adjust
age,sex,batch`` must stay under 600 MB resident, whatever the size of the file, and give what numpy and ``ExactSPCA``
give on the residuals of all rows in memory. It is not part of ``make bench``: it writes the file, as CSV and as
Parquet, and a prepared copy of each, and the pooled residuals take four times the file in memory.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

N_COLUMNS = 100
NAMES = [f"f{j:02d}" for j in range(N_COLUMNS)]
BATCHES = ("batch 1", "batch 2", "batch 3", "batch 4")
BLOCK = 20_000
LIMIT_MB = 600
ARGUMENTS = ["-r", "2", "--nonzero", "8", "--site-column", "site", "--no-path", "--force"]
ADJUST = ["--adjust", "age,sex,batch"]
PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


def main(gigabytes: float) -> None:
    """Write both files, fit each in a process of its own, and print what that took."""
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        for kind in ("csv", "parquet"):
            path = Path(folder) / f"rows.{kind}"
            n_rows = write(path, gigabytes * 1e9)
            say(f"{kind}, {path.stat().st_size / 1e9:.2f} GB, {n_rows:,} rows of three sites")
            for what, more in (
                ("adjusted", ADJUST),
                ("adjusted, from the prepared copy", ADJUST),
                ("not adjusted", ["--exclude", "age,sex,batch"]),
            ):
                seconds, peak, components = fit(path, Path(folder), more)
                verdict = "ok" if peak < LIMIT_MB else f"OVER {LIMIT_MB} MB"
                say(f"  {what}: {seconds:.0f} s, peak {peak:.0f} MB, {verdict}")
                if what == "adjusted":
                    adjusted = components
            say(f"  adjusted, against pooled residuals: weights differ by {np.abs(adjusted - pooled(path)).max():.1e}")
            say(f"  not adjusted, weights differ from those by {np.abs(adjusted - components).max():.2f}")
            path.unlink()


def say(line: str) -> None:
    """Print at once: a run takes minutes."""
    print(line, flush=True)


def write(path: Path, n_bytes: float) -> int:
    """Write rows with two directions, and stronger ones of age, sex and batch, until the file is large enough."""
    rng = np.random.default_rng(0)
    loadings = np.zeros((2, N_COLUMNS))
    loadings[0, :8], loadings[1, 8:16] = 1.0, 1.0
    effects = np.zeros((5, N_COLUMNS))  # age, sex, and the last three batches
    effects[:, 40:90] = 3 * rng.standard_normal((5, 50))
    texts = [(name, pa.string()) for name in ("sex", "batch", "site")]
    schema = pa.schema([*((name, pa.float64()) for name in [*NAMES, "age"]), *texts])
    make = pc.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
    n_rows = 0
    with make(str(path), schema) as writer:
        while path.stat().st_size < n_bytes:
            age, sex, batch, site = (rng.integers(0, most, BLOCK) for most in (80, 2, 4, 3))
            known = np.column_stack([age / 40, sex, *(batch == level for level in (1, 2, 3))])
            rows = rng.standard_normal((BLOCK, 2)) @ loadings + known @ effects
            rows += rng.standard_normal((BLOCK, N_COLUMNS))
            numbers = [*(rows.round(4) if path.suffix == ".csv" else rows).T, age.astype(np.float64)]
            words = [
                np.array(["female", "male"])[sex],
                np.array(BATCHES)[batch],
                np.array(["north", "south", "west"])[site],
            ]
            writer.write_table(pa.table([pa.array(column) for column in [*numbers, *words]], schema=schema))
            n_rows += BLOCK
    return n_rows


def fit(path: Path, folder: Path, more: list[str]) -> tuple[float, float, Any]:
    """Return the seconds, the peak of resident memory in MB, and the components of ``fedspca fit``."""
    command = [sys.executable, "-m", "fedspca", "fit", str(path), *ARGUMENTS, *more]
    command += ["--cache", str(folder / f"cache-{path.suffix[1:]}"), "-o", str(folder / "model")]
    began = time.perf_counter()
    ran = subprocess.run([sys.executable, "-c", PEAK, *command], check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    return seconds, int(ran.stdout.split()[-1]) * 1024 / 1e6, np.load(folder / "model" / "components.npy")


def pooled(path: Path) -> Any:
    """Return the components of the residuals of all rows, by numpy's least squares, in memory."""
    from fedspca import ExactSPCA

    table = pc.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    rows = np.column_stack([table[name].to_numpy() for name in NAMES])
    sex, batch = table["sex"].to_numpy(), table["batch"].to_numpy()
    columns = [np.ones(len(rows)), table["age"].to_numpy(), sex == "male", *(batch == level for level in BATCHES[1:])]
    known = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    rows -= known @ np.linalg.lstsq(known, rows, rcond=None)[0]
    return ExactSPCA(2, n_nonzero=8, scale=True, proof_seconds=0).fit(rows).components_


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
