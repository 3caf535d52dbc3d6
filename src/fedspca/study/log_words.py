"""A line of a site's log in a few words."""

from collections.abc import Mapping
from typing import Any


def released(line: Mapping[str, Any]) -> str:
    """Return what a line of the log says left the site."""
    if line["verdict"] == "refused":
        return str(line.get("reason", ""))
    arrays = ", ".join(f"{name} {'×'.join(map(str, shape)) or '1'}" for name, _, shape in line.get("released", []))
    return f"{arrays} ({line.get('bytes', 0):,} bytes)" if arrays else "no numbers"
