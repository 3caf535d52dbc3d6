"""What a long computation does between questions, told to whoever listens: a progress line, or nobody."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Item = TypeVar("Item")
Listener = Callable[[str], object]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """Tell a listener what is done meanwhile.

    Parameters
    ----------
    listener : callable
        Called with a few words each time.
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def counted(what: str, items: Sequence[Item]) -> Iterator[Item]:
    """Go through some items, and tell before each what is done and how many there are.

    Parameters
    ----------
    what : str
        What is done, such as "Fitting half samples".
    items : sequence
        What it is done to.
    """
    for number, item in enumerate(items, 1):
        if (listener := _listener.get()) is not None:
            listener(f"{what}: {number} of {len(items)}")
        yield item
