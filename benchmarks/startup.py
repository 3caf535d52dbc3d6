"""What the command line costs before it does anything: CPU seconds of help, version and completion."""

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

BAR = 0.3  # CPU seconds
RUNS = 5  # the least of so many: what is above it is the machine's other work
SHELL = {"_FEDSPCA_COMPLETE": "complete_bash"}
CASES: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "fedspca --version": (("--version",), {}),
    "fedspca --help": (("--help",), {}),
    "fedspca fit --help": (("fit", "--help"), {}),
    "completion of a command": ((), {**SHELL, "COMP_WORDS": "fedspca s", "COMP_CWORD": "1"}),
    "completion of an option": ((), {**SHELL, "COMP_WORDS": "fedspca fit --no", "COMP_CWORD": "2"}),
}
CODE = "import sys; sys.argv[0] = 'fedspca'; from fedspca.cli import main; main()"


class Start(NamedTuple):
    """One way to start the command, and the CPU seconds that it took."""

    name: str
    seconds: float


def cpu_seconds(arguments: tuple[str, ...], environment: Mapping[str, str]) -> float:
    """Run the command once in a new process; return the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        stdout=subprocess.DEVNULL,
        check=True,
        env={**os.environ, **environment},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure() -> list[Start]:
    """Measure every case."""
    return [Start(name, min(cpu_seconds(*case) for _ in range(RUNS))) for name, case in CASES.items()]


def main() -> None:
    """Print each case beside the bar."""
    for start in measure():
        print(f"{start.name:<26}{start.seconds:6.2f} s CPU  ({'within' if start.seconds < BAR else 'ABOVE'} {BAR} s)")


if __name__ == "__main__":
    main()
