"""Run every benchmark, or those named: `python -m benchmarks consensus`; `--full` adds the long ones."""

import sys
from collections.abc import Callable

from benchmarks import consensus, exact, growth, machine, picture, report


def performance(*, full: bool) -> None:
    """Measure against every peer, fit the growth, and write the page."""
    report.write(machine.run(full=full), growth.run(full=full))


BENCHMARKS: dict[str, Callable[[bool], object]] = {
    "consensus": lambda _full: consensus.main(),
    "exact": lambda _full: exact.main(),
    "picture": lambda _full: picture.main(),
    "performance": lambda full: performance(full=full),
}


def main(arguments: list[str]) -> int:
    """Run the benchmarks named, or all of them."""
    names = [name for name in arguments if name != "--full"]
    if unknown := [name for name in names if name not in BENCHMARKS]:
        print(f"There is no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    for number, name in enumerate(names or BENCHMARKS, start=1):
        print(f"{name} ({number} of {len(names or BENCHMARKS)})", file=sys.stderr, flush=True)
        BENCHMARKS[name]("--full" in arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
