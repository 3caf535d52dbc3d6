"""Run every benchmark, or those named: `python -m benchmarks machine W1 W4`, `python -m benchmarks growth n`.

`python -m benchmarks optima --data FOLDER` takes the covariances of a folder along, `python -m benchmarks optima wine
spikes` measures these matrices only, and `python -m benchmarks folds coverage easy` runs one part of the benchmark of
folds.
`python -m benchmarks page` measures nothing, and writes the page again from the figures that are there.

What is measured goes into docs/performance.json, part by part, and docs/performance.md shows all that is in it.
Of one machine and of the modes, some workloads may be measured again alone; any other part of which only some is run is
only printed.
"""

import sys
import time
from importlib import import_module

from benchmarks import report

MEASURED = ("machine", "modes", "threads", "sites", "passes", "growth", "large")
PRINTED = (
    "adjusting",
    "anomalies",
    "audit",
    "basins",
    "combat",
    "consensus",
    "effects",
    "exact",
    "folds",
    "gaps",
    "kept",
    "masking",
    "optima",
    "picture",
    "privacy",
    "sample",
    "startup",
    "units",
    "updating",
)
SLOW = ("best_known", "institutions", "rounds")  # only when named: they take many minutes, and some need Flower
KNOWN = (*MEASURED, *PRINTED, *SLOW)
CURVES = ("n", "d", "nnz", "K", "r")


def main(arguments: list[str]) -> int:
    """Run the parts named, or all, on the workloads or curves named, or all. What fails is printed, and no error."""
    if arguments[:1] == ["optima"] and not set(arguments[1:]) & set(KNOWN):
        folder = arguments[2] if arguments[1:2] == ["--data"] and len(arguments) > 2 else None
        import_module("benchmarks.optima").main(folder, tuple(arguments[3 if folder else 1 :]))
        return 0
    if arguments[:1] == ["folds"]:
        import_module("benchmarks.folds").main(*arguments[1:])
        return 0
    if arguments == ["page"]:
        report.rewrite()
        return 0
    names = [name for name in KNOWN if name in arguments] or [*MEASURED, *PRINTED]
    only = tuple(argument for argument in arguments if argument not in KNOWN)
    if unknown := [word for word in only if word not in CURVES and not word.startswith(("W", "CSR", "mapped"))]:
        print(f"There is no benchmark {', '.join(unknown)}; there are {', '.join(KNOWN)}.", file=sys.stderr)
        return 2
    began, bars = time.monotonic(), []
    for number, name in enumerate(names, start=1):
        say(f"{name} ({number} of {len(names)}, {(time.monotonic() - began) / 60:.1f} min so far)")
        part = import_module(f"benchmarks.{name}")  # one at a time: each has dependencies of its own
        if name not in MEASURED:
            part.main()
            continue
        rows, found = part.run(say, only)
        bars += found
        if not only or name in ("machine", "modes"):
            report.keep(name, rows, found)
    if bars:
        say("\nWhat must hold")
        for bar in bars:
            say(str(bar))
        say(f"{sum(bar.holds for bar in bars)} of {len(bars)} hold ({(time.monotonic() - began) / 60:.1f} min)")
    return 0


def say(line: str) -> None:
    """Print at once: a long run must show where it is."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
