"""Memory and time of a fit to genotypes: ``python -m benchmarks.genotypes [people] [variants]``.

It writes a ``.bed`` file of two populations, fits it as one site in a process of its own, and prints the peak memory.
The fit must stay under 4 GB for 100,000 people and 100,000 variants, a file of 2.5 GB; by default there are 10,000
variants. It is not part of ``make bench``: it writes the file, and a prepared copy of the same size.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fedspca.data.plink import MAGIC
from fedspca.linalg.packed import pack

LIMIT_MB = 4000
APART = 200  # variants that tell the two populations apart
MISSING = 0.02


def write(path: Path, people: int, variants: int) -> None:
    """Write genotypes of two populations; some variants have other allele frequencies in each."""
    rng = np.random.default_rng(0)
    second = rng.random(people) < 0.5
    with path.open("wb") as file:
        file.write(MAGIC)
        for j in range(variants):
            p = rng.uniform(0.05, 0.5)
            q = p + 0.3 if j < APART else p
            drawn = rng.integers(0, 256, people, dtype=np.uint8)
            codes = np.where(second, codes_of(q)[drawn], codes_of(p)[drawn])
            file.write(pack(codes[None]).tobytes())
    path.with_suffix(".bim").write_text("".join(f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in range(variants)))
    path.with_suffix(".fam").write_text("".join(f"f p{i} 0 0 0 -9\n" for i in range(people)))


def codes_of(p: float) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Return the code that each of 256 equally likely bytes stands for, at allele frequency p."""
    shares = np.cumsum([MISSING, (1 - MISSING) * p**2, (1 - MISSING) * 2 * p * (1 - p)])
    order = np.array([1, 0, 2, 3], dtype=np.uint8)  # missing, two copies, one, none
    return order[np.searchsorted(shares, (np.arange(256) + 0.5) / 256)]


def main(people: int = 100_000, variants: int = 10_000) -> None:
    """Write the file, fit it, and print what that took."""
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build") as folder:
        path = Path(folder) / "people.bed"
        write(path, people, variants)
        command = [
            sys.executable,
            "-m",
            "fedspca",
            "fit",
            str(path),
            "-r",
            "1",
            "--nonzero",
            "20",
            "--no-path",
            "--json",
        ]
        command += ["--scale-by", "allele", "--cache", str(Path(folder) / "cache"), "-o", str(Path(folder) / "model")]
        began = time.monotonic()
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.monotonic() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak, cpu = used.ru_maxrss * 1024 / 1e6, used.ru_utime + used.ru_stime
        weights = np.load(Path(folder) / "model" / "components.npy")
        found = np.count_nonzero(np.flatnonzero(weights[0]) < APART)
        rounds = json.loads(ran.stdout)["rounds"]
        verdict = "ok" if peak < LIMIT_MB else f"OVER {LIMIT_MB} MB"
        size = path.stat().st_size / 1e6
        print(
            f"{people:,} × {variants:,} genotypes, {size:.0f} MB: {seconds:.0f} s ({cpu:.0f} s of CPU), "
            f"{rounds} rounds, {peak:.0f} MB, {verdict}; "
            f"{found} of 20 weights are on the {APART} variants that tell the populations apart"
        )


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
