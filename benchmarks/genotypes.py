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
from numpy.typing import NDArray

from fedspca.data.plink import MAGIC
from fedspca.linalg.packed import pack

LIMIT_MB = 4000
APART = 200  # variants that tell the two populations apart
MISSING = 0.02
FREQUENCIES = 32  # different allele frequencies among the variants

Array = NDArray[np.float64]
Bytes = NDArray[np.uint8]


def write(path: Path, people: int, variants: int) -> None:
    """Write genotypes of two populations; some variants have other allele frequencies in each."""
    rng = np.random.default_rng(0)
    second = rng.random(people) < 0.5
    frequencies = rng.uniform(0.05, 0.5, FREQUENCIES)
    four = [four_codes_of(p) for p in frequencies]
    with path.open("wb") as file:
        file.write(MAGIC)
        for j in range(variants):
            which = rng.integers(FREQUENCIES)
            if j < APART:
                drawn = rng.integers(0, 256, people, dtype=np.uint8)
                p = frequencies[which]
                line = pack(np.where(second, codes_of(p + 0.3)[drawn], codes_of(p)[drawn])[None])
            else:
                line = four[which][rng.integers(0, 1 << 16, -(-people // 4), dtype=np.uint16)]
            file.write(line.tobytes())
    path.with_suffix(".bim").write_text("".join(f"1\trs{j}\t0\t{j + 1}\tA\tG\n" for j in range(variants)))
    path.with_suffix(".fam").write_text("".join(f"f p{i} 0 0 0 -9\n" for i in range(people)))


def shares_of(p: float) -> Array:
    """Return how often each code is drawn at allele frequency p."""
    two, one, none = p**2, 2 * p * (1 - p), (1 - p) ** 2
    return np.array([(1 - MISSING) * two, MISSING, (1 - MISSING) * one, (1 - MISSING) * none])


def codes_of(p: float) -> Bytes:
    """Return the code that each of 256 equally likely bytes stands for, at allele frequency p."""
    return np.searchsorted(np.cumsum(shares_of(p))[:-1], (np.arange(256) + 0.5) / 256).astype(np.uint8)


def four_codes_of(p: float) -> Bytes:
    """Return the four codes in a byte that each of 65,536 equally likely numbers stands for."""
    shares = shares_of(p)
    codes = (np.arange(256)[:, None] >> np.array([0, 2, 4, 6])) & 3
    together = np.cumsum(shares[codes].prod(axis=1))
    return np.searchsorted(together[:-1], (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)


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
