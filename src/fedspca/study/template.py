"""A ``study.toml`` with every setting and what it means."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from fedspca.study.settings import Study

OPENING = """\
# A study for fedspca. Every setting is here with its default; lines that begin with # are not used.
# Fit it with:  fedspca fit study.toml -o model
"""


def template(study: Study) -> str:
    """Write the settings of a study with a comment for each. What is not set stands as a commented example."""
    lines, section = [OPENING], ""
    for about in fields(Study):
        if about.metadata["section"] != section:
            section = about.metadata["section"]
            lines.append(f"[{section}]")
        value = getattr(study, about.name)
        lines.append(f"# {about.metadata['help']}")
        if value is None or (value in ((), {}) and about.metadata["example"]):
            lines.append(f"# {about.name} = {about.metadata['example']}")
        else:
            lines.append(f"{about.name} = {toml_value(value)}")
        lines.append("")
    return "\n".join(lines)


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
