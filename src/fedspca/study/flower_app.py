"""The one Flower app: a folder with no code of its own, whose components are those of this package.

Flower therefore offers only one settings file to the sites, and the sites do not fetch it: they run the code that they
installed themselves (:mod:`fedspca.flower.executor`). Flower's simulation engine, where all sites are on one machine,
runs the ClientApp that the settings file names.
"""

from pathlib import Path

from fedspca._version import __version__
from fedspca.files import new_file

PUBLISHER, APP_NAME = "fedspca", "fedspca-study"
APP = f"{PUBLISHER}/{APP_NAME}"  # as Flower names it

PYPROJECT = """\
# Written by fedspca. The components are the installed package's own, so this app ships no code.
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "{version}"
description = "Sparse principal components of data that may not be pooled"
license = "BSD-3-Clause"

[tool.flwr.app]
publisher = "{publisher}"

[tool.flwr.app.components]
serverapp = "fedspca.study.server_app:app"
clientapp = "fedspca.study.client_app:app"

[tool.flwr.app.config]
folder = ""
action = ""
"""


def write_app(parent: Path) -> Path:
    """Write the Flower app into ``parent/fedspca-study`` and return that folder, for ``flwr run``."""
    folder = Path(parent) / APP_NAME
    release = ".".join(__version__.split(".")[:3])
    with new_file(folder / "pyproject.toml") as draft:
        draft.write_text(PYPROJECT.format(name=APP_NAME, publisher=PUBLISHER, version=release), encoding="utf-8")
    return folder


def failure_file(folder: Path, run_id: int) -> Path:
    """Where the ServerApp of a run says why it failed."""
    return Path(folder) / "flower" / f"failure-{run_id}.txt"
