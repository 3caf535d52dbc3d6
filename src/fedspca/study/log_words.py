"""A line of a site's log in a few words."""

from collections.abc import Mapping
from typing import Any

MASKED, LOADINGS = "vector", "components"
OF_MASKS = frozenset({"key", "commitment", "shares", "certificate"})  # they tell nothing of rows
SIGNED = frozenset({"approval"})


def with_figures(line: Mapping[str, Any]) -> bool:
    """Return whether figures about rows left the site, masked or not."""
    return line["verdict"] == "answered" and bool(set(_shapes(line)) - OF_MASKS - SIGNED - {LOADINGS})


def released(line: Mapping[str, Any]) -> str:
    """Return what a line of the log says left the site."""
    if line["verdict"] == "refused":
        return str(line.get("reason", ""))
    shapes = _shapes(line)
    told = [_in_words(name, shape) for name, shape in shapes.items() if name not in OF_MASKS]
    told += ["keys of the masks"] if OF_MASKS & set(shapes) else []
    return f"{', '.join(told)} ({line.get('bytes', 0):,} bytes)" if told else "no numbers"


def _shapes(line: Mapping[str, Any]) -> dict[str, list[int]]:
    return {name: shape for name, _, shape in line.get("released", [])}


def _in_words(name: str, shape: list[int]) -> str:
    size = "×".join(map(str, shape)) or "1"
    if name in SIGNED:
        return "the signed approval"
    if name == MASKED:
        return f"{size} masked words"
    return f"the loadings, computed here from the sums, {size}" if name == LOADINGS else f"{name} {size}"
