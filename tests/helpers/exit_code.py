"""A command run in this process, and its exit code."""

import pytest

from fedspca.cli import app


def fedspca(*arguments):
    """Exit code of the command, run in this process."""
    with pytest.raises(SystemExit) as caught:
        app.run([str(argument) for argument in arguments])
    return caught.value.code or 0
