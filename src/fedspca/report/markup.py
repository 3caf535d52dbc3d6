"""HTML that is escaped by construction: every string is escaped, except markup that was built here."""

import re
from html import escape
from typing import Any

COMMAND = re.compile(r"(--[a-z][a-z-]*(?: \d+)?|fedspca (?:site |study )?[a-z]+)")


class Markup(str):
    """A string that is already markup, so it is not escaped again."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Build an element. Strings are escaped, and None is left out. In names, ``class_`` is class and ``_`` is -."""
    head = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{name}{head}>{join(*children)}</{name}>")


def void(name: str, /, **attributes: Any) -> Markup:
    """Build an element that has no content."""
    return Markup(str(tag(name, **attributes)).removesuffix(f"</{name}>"))


def join(*children: Any) -> Markup:
    """Put markup and text one after another."""
    return Markup("".join(c if isinstance(c, Markup) else escape(str(c)) for c in _flat(children) if c is not None))


def with_code(text: str) -> Markup:
    """Return a sentence in which options and commands are code, so that no line breaks inside them."""
    return join(*(tag("code", part) if COMMAND.fullmatch(part) else part for part in COMMAND.split(text)))


def _flat(children: Any) -> list[Any]:
    return [item for child in children for item in (_flat(child) if isinstance(child, list | tuple) else [child])]


def _attribute(value: Any) -> str:
    if value is True:
        return ""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
