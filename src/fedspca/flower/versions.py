"""Which releases of Flower are supported: its internal interfaces change with each release."""

import re
from importlib.metadata import PackageNotFoundError, version

LOWEST, BEYOND = (1, 41), (1, 43)  # the lowest tested release, and the first untested one


class UnsupportedFlower(ImportError):
    """A release of Flower with which this was not tested."""


def check_flower(found: str | None = None) -> str:
    """Return the installed release of Flower; raise :class:`UnsupportedFlower`, in words, if it was not tested."""
    found = _installed() if found is None else found
    numbers = re.match(r"(\d+)\.(\d+)", found)
    release = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    if not LOWEST <= release < BEYOND:
        lowest, beyond = ("{}.{}".format(*one) for one in (LOWEST, BEYOND))
        raise UnsupportedFlower(
            f"Flower {found} is installed; supported are releases from {lowest} to before {beyond}. "
            f"Install one with: pip install 'flwr>={lowest},<{beyond}'"
        )
    return found


def _installed() -> str:
    try:
        return version("flwr")
    except PackageNotFoundError:
        raise UnsupportedFlower("Flower is not installed. Install it with: pip install 'fedspca[flower]'") from None
