"""A ``study.toml`` with every setting and what it means."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from fedspca.study.settings import SECTIONS, Fit, by_section

OPENING = """\
# A study for fedspca. Every setting is here with its default; lines that begin with # are not used.
# Fit it with:  fedspca fit study.toml -o model
"""


def template(study: Fit, opening: str = OPENING, sections: Collection[str] = SECTIONS) -> str:
    """Write the settings of a study with a comment for each. What is not set stands as a commented example."""
    lines = [opening]
    for section, settings in by_section(type(study)).items():
        if section in sections:
            lines.append(f"[{section}]")
            for about in settings:
                lines += [f"# {about.metadata['help']}", _line(about, getattr(study, about.name)), ""]
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
