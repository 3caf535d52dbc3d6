"""Whether two machines understand each other: the version of the protocol, and the release for people to read.

The protocol's version changes when the letters change in a way that an older release would misread. Releases with the
same protocol version work together. If the versions differ, the machines report it, and no question is asked.
"""

from collections.abc import Mapping
from typing import Any

from fedspca._version import __version__

PROTOCOL = 1
FIRST = 1  # the version of letters that name none
SOFTWARE = __version__
LONGEST = 40


def introduction() -> dict[str, Any]:
    """Return what goes along with the first letters and their answers."""
    return {"protocol": PROTOCOL, "software": SOFTWARE}


def software_of(fields: Mapping[str, Any]) -> str:
    """Return the release that the other side runs, made short and plain: it may be hostile."""
    told = str(fields.get("software", "of an unknown release"))[:LONGEST]
    return "".join(letter for letter in told if letter.isprintable())


def misunderstanding(fields: Mapping[str, Any], who: str) -> str | None:
    """Return in words that the other side speaks another protocol; None if it speaks this one."""
    spoken = fields.get("protocol", FIRST)
    if spoken == PROTOCOL and isinstance(spoken, int) and not isinstance(spoken, bool):
        return None
    there = f"protocol {spoken}" if isinstance(spoken, int) else "a protocol without a number"
    return (
        f"{who} runs fedspca {software_of(fields)}, which speaks {there}; here is fedspca {SOFTWARE}, which speaks "
        f"protocol {PROTOCOL}. Install releases that speak the same."
    )
