"""Databases as sources: their URLs, and what may be shown of them."""

import re
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

SECRET = re.compile(r"://([^/@]*?):([^/@]*)@")


def is_url(source: Any) -> bool:
    """Whether a source is a database, and no file."""
    return isinstance(source, str) and "://" in source


def safe_url(url: str) -> str:
    """Return a URL for messages: without a password, and without options."""
    return SECRET.sub(r"://\1@", url).partition("?")[0]


def source_name(source: str) -> str:
    """Return the name of a file without its folder, or that of a database without host, user and options."""
    if not is_url(source):
        return Path(source).name
    parts = urlsplit(source)
    return PurePosixPath(parts.path).name or parts.hostname or parts.scheme
