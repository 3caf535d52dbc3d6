"""Run every benchmark, or those named: `python -m benchmarks machine W1 W4`, `python -m benchmarks growth n`.

All of them together write docs/performance.md and docs/performance.json; some of them write to build/.
"""

import sys
import time
from pathlib import Path

from benchmarks import (
    consensus,
    exact,
    growth,
    large,
    machine,
    masking,
    passes,
    picture,
    privacy,
    report,
    sites,
    threads,
)

MEASURED = {
    "machine": machine.run,
    "threads": threads.run,
    "sites": sites.run,
    "passes": passes.run,
    "growth": growth.run,
    "large": large.run,
}
PRINTED = {
    "consensus": consensus.main,
    "exact": exact.main,
    "masking": masking.main,
    "picture": picture.main,
    "privacy": privacy.main,
}


def main(arguments: list[str]) -> int:
    """Run the parts named, or all, on the workloads or curves named, or all. What fails is printed, and no error."""
    names = [name for name in (*MEASURED, *PRINTED) if name in arguments] or [*MEASURED, *PRINTED]
    only = tuple(argument for argument in arguments if argument not in (*MEASURED, *PRINTED))
    if unknown := [word for word in only if word not in growth.CURVES and not word.startswith("W")]:
        print(
            f"There is no benchmark {', '.join(unknown)}; there are {', '.join((*MEASURED, *PRINTED))}.",
            file=sys.stderr,
        )
        return 2
    began, results = time.monotonic(), {}
    for number, name in enumerate(names, start=1):
        say(f"{name} ({number} of {len(names)}, {(time.monotonic() - began) / 60:.1f} min so far)")
        if name in MEASURED:
            results[name] = MEASURED[name](say, only)
            page = report.write(results) if not arguments else report.write(results, Path("build"))
        else:
            PRINTED[name]()
    if not results:
        return 0
    bars = [bar for _, found in results.values() for bar in found]
    say("\nWhat must hold")
    for bar in bars:
        say(str(bar))
    failing = sum(not bar.holds for bar in bars)
    say(f"{len(bars) - failing} of {len(bars)} hold; {page} has it all ({(time.monotonic() - began) / 60:.1f} min)")
    return 0


def say(line: str) -> None:
    """Print at once: a long run must show where it is."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
