"""A ``fit.toml`` with every setting and what it means."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from fedspca.fit.settings import SECTIONS, SolverSettings, by_section

OPENING = """\
# A fit for fedspca. Every setting is here with its default; lines that begin with # are not used.
# Fit it with:  fedspca fit fit.toml -o model
"""


def template(settings: SolverSettings, opening: str = OPENING, sections: Collection[str] = SECTIONS) -> str:
    """Write settings with a comment for each. What is not set stands as a commented example."""
    lines = [opening]
    for section, fields_of in by_section(type(settings)).items():
        if section in sections:
            lines.append(f"[{section}]")
            for about in fields_of:
                lines += [f"# {about.metadata['help']}", _line(about, getattr(settings, about.name)), ""]
    return "\n".join(lines)


def _line(about: Any, value: Any) -> str:
    if value is None or (value in ((), {}) and about.metadata["example"]):
        return f"# {about.name} = {about.metadata['example']}"
    return f"{about.name} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    """Write one value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_value(key)} = {toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, tuple | list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return repr(value)
