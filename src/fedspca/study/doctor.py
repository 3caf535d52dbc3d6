"""Find out what is wrong at a site, and say it in words: check each requirement, this machine first."""

import os
import platform
import shutil
import stat
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fedspca._version import __version__
from fedspca.flower.certificates import InvalidCertificate
from fedspca.flower.reaching import Unreachable, clock_of, proxy_for, try_clock
from fedspca.flower.versions import check_flower
from fedspca.site.errors import SiteError, count
from fedspca.study.guard import LEAST_SPACE, _authority, standing
from fedspca.study.owner import SiteFolder

LITTLE = 100 << 20  # bytes of free space; with less, the administrator is warned


class Finding(NamedTuple):
    """The result of one check: its name, whether it passed, and an explanation."""

    name: str
    well: bool
    words: str


def examine(folder: SiteFolder) -> Iterator[Finding]:
    """Check each requirement of a site, one after the other."""
    checks: list[tuple[str, Callable[[SiteFolder], str]]] = [
        ("version", _versions),
        ("rights", _rights),
        ("disk", _disk),
        ("data", _data),
        ("policy", _policy),
        ("log", _log),
        ("invitation", _invitation),
        ("network", _network),
        ("clock", _clock),
        ("guard", _guard),
    ]
    for name, check in checks:
        try:
            yield Finding(name, True, check(folder))
        except (ValueError, OSError, ImportError, SiteError, InvalidCertificate) as error:
            yield Finding(name, False, str(error))


def _versions(folder: SiteFolder) -> str:
    del folder
    return f"fedspca {__version__}, Flower {check_flower()}, Python {platform.python_version()}"


def _rights(folder: SiteFolder) -> str:
    for path in (folder.path, folder.path / "identity.key", folder.path / "flower" / "node.key"):
        mode = path.stat()
        if mode.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ValueError(f"others may read {path}: chmod go-rwx {path}")
        if mode.st_uid != os.geteuid():
            raise ValueError(f"{path} belongs to another account than the one that runs this command")
    if not os.access(folder.path, os.W_OK):
        raise ValueError(f"{folder.path} cannot be written by this account")
    return "the folder and the keys are this account's alone"


def _disk(folder: SiteFolder) -> str:
    free = shutil.disk_usage(folder.path).free
    if free < LITTLE:
        least = "the site answers nothing until there is more" if free < LEAST_SPACE else "that is little"
        raise ValueError(f"{free / 1e6:,.1f} MB are free at {folder.path}; {least}")
    return f"{free / 1e9:,.1f} GB are free at {folder.path}"


def _data(folder: SiteFolder) -> str:
    from fedspca.fit.inputs import open_inputs

    inputs = open_inputs(folder.data)
    return f"{count(inputs.sites[0].rows.shape[0], 'row')}, {count(len(inputs.feature_names), 'feature')} can be read"


def _policy(folder: SiteFolder) -> str:
    policy = folder.policy
    masks = "required" if policy.masking else "NOT required"
    return f"at least {policy.min_rows} rows and {policy.min_sites} sites; masks are {masks}"


def _log(folder: SiteFolder) -> str:
    return f"{folder.audit().verify()} lines, unbroken"


def _invitation(folder: SiteFolder) -> str:
    about = folder.invitation
    return f"site {about.site} in study {about.study}, coordinator at {about.host}:{about.port}"


def _network(folder: SiteFolder) -> str:
    about = folder.invitation
    proxy = proxy_for(about.host, about.port)
    through = "" if proxy is None else f" through the proxy {proxy}"
    clock_of(about.host, about.port, _authority(folder, about))
    return f"the study's server answers{through}, and its certificate is the study's"


def _clock(folder: SiteFolder) -> str:
    about = folder.invitation
    try:
        wrong = try_clock(about.host, about.port, _authority(folder, about))
    except Unreachable:
        raise ValueError("the server's clock is not known, since the server is not reached") from None
    if wrong is not None:
        raise ValueError(wrong)
    return "the clock is near enough to the coordinator's"


def _guard(folder: SiteFolder) -> str:
    how = standing(folder)
    if how.pid is None:
        raise ValueError("the site does not run: fedspca site join")
    if not how.connected:
        raise ValueError(how.trouble or how.told)
    return f"process {how.pid} is connected"
