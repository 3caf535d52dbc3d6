"""Run commands as a user does, but in this process: quicker, and with the same exit codes."""

import contextlib
import io
import sys
from typing import NamedTuple

from fedspca.cli.app import run


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def fedspca(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            run([str(argument) for argument in arguments])
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    sys.stdout.flush()
    return Ran(code, out.getvalue(), err.getvalue())
