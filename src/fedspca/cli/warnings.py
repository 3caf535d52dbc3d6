"""Warnings of the library, as one line each on the error stream."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from fedspca.cli.output import notes, visible
from fedspca.cli.words import in_options


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Print each warning as a sentence, without the line of code that raised it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught if warning.category is not ResourceWarning):
        notes().print(f"Warning: {visible(in_options(message))}", soft_wrap=True)
