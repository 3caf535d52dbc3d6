"""``python -m fedspca`` is the ``fedspca`` command."""

from fedspca.cli import main

main()
