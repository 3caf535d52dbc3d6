"""Run every benchmark, or those named: `python -m benchmarks consensus`."""

import sys
from importlib import import_module

from benchmarks import consensus, exact, masking, picture, privacy

BENCHMARKS = {
    "consensus": consensus.main,
    "exact": exact.main,
    "masking": masking.main,
    "picture": picture.main,
    "privacy": privacy.main,
}


SLOW = {"institutions": "benchmarks.institutions"}  # only when named: it needs Flower, and takes many minutes


def main(names: list[str]) -> int:
    """Run the benchmarks named, or all of them."""
    known = [*BENCHMARKS, *SLOW]
    if unknown := [name for name in names if name not in known]:
        print(f"There is no benchmark {', '.join(unknown)}; there are {', '.join(known)}.", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        (BENCHMARKS.get(name) or import_module(SLOW[name]).main)()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
