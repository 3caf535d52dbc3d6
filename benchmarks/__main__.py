"""Run every benchmark, or those named: `python -m benchmarks consensus`."""

import sys

from benchmarks import consensus, exact, masking, picture, privacy

BENCHMARKS = {
    "consensus": consensus.main,
    "exact": exact.main,
    "masking": masking.main,
    "picture": picture.main,
    "privacy": privacy.main,
}


def main(names: list[str]) -> int:
    """Run the benchmarks named, or all of them."""
    if unknown := [name for name in names if name not in BENCHMARKS]:
        print(f"There is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
