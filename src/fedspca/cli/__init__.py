"""The command line: thin commands over the library. It needs the ``cli`` extra."""

import sys


def main() -> None:
    """Run the command line, or say what is missing."""
    try:
        from fedspca.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit(f"The fedspca command needs {error.name}. Install it with: pip install 'fedspca[cli]'")
    run()
