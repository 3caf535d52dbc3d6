"""Memory and time of a fit to a file larger than memory may be: ``python -m benchmarks.files [gigabytes]``.

The fit must stay under 600 MB resident, whatever the size of the file. It is not part of ``make bench``: it writes the
file, as CSV and as Parquet, and a prepared copy of each.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

N_COLUMNS = 100
BLOCK = 20_000
LIMIT_MB = 600


def main(gigabytes: float) -> None:
    """Write both files, fit each in a process of its own, and print what that took."""
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        for kind in ("csv", "parquet"):
            path = Path(folder) / f"rows.{kind}"
            n_rows = write(path, gigabytes * 1e9)
            size = path.stat().st_size / 1e9
            for attempt in ("first", "again, from the prepared copy"):
                seconds, peak = fit(path, Path(folder))
                verdict = "ok" if peak < LIMIT_MB else f"OVER {LIMIT_MB} MB"
                print(
                    f"{kind:<8} {size:.2f} GB, {n_rows:,} rows: {seconds:6.1f} s, {peak:.0f} MB, {verdict} ({attempt})"
                )
            path.unlink()


def write(path: Path, n_bytes: float) -> int:
    """Write rows with two strong directions until the file is large enough."""
    rng = np.random.default_rng(0)
    names = [f"f{j:02d}" for j in range(N_COLUMNS)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    loadings = np.zeros((2, N_COLUMNS))
    loadings[0, :8], loadings[1, 8:16] = 1.0, 1.0
    make = pc.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
    n_rows = 0
    with make(str(path), schema) as writer:
        while path.stat().st_size < n_bytes:
            rows = rng.standard_normal((BLOCK, 2)) @ loadings + rng.standard_normal((BLOCK, N_COLUMNS))
            columns = (
                [pa.array(column) for column in rows.round(4).T]
                if path.suffix == ".csv"
                else list(map(pa.array, rows.T))
            )
            writer.write_table(pa.table(columns, schema=schema))
            n_rows += BLOCK
    return n_rows


def fit(path: Path, folder: Path) -> tuple[float, float]:
    """Return the seconds and the peak memory, in MB, of ``fedspca fit``."""
    command = [sys.executable, "-m", "fedspca", "fit", str(path), "-r", "2", "--nonzero", "8", "--no-path", "--force"]
    began = time.perf_counter()
    measured = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    arguments = [*command, "--cache", str(folder / "cache"), "-o", str(folder / "model")]
    ran = subprocess.run([sys.executable, "-c", measured, *arguments], check=True, capture_output=True, text=True)
    return time.perf_counter() - began, int(ran.stdout.split()[-1]) / 1000


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0)
