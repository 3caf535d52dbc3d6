"""systemd units for a site and for a study: they start with the machine, restart after a crash, and are sandboxed.

A unit of the system sees the whole system read-only and writes only into one folder. It cannot gain rights, use
devices, or use network protocols that it does not need. A unit of a user gets no more than the user's own systemd may
enforce: that one cannot mount anything or drop capabilities, and a unit that asks for it does not start. Variables such
as ``HTTPS_PROXY`` go into ``service.env`` in the same folder. Only the owner of the folder can read this file.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ENVIRONMENT = "service.env"
UNIT = """\
# {what}. Written by fedspca; put it into {place}
[Unit]
Description={what}
After=network-online.target
Wants=network-online.target
# it is started again for as long as it takes: a coordinator may be away for days
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
WorkingDirectory={folder}
Environment={cache}
EnvironmentFile=-{folder}/{environment}
Restart=always
RestartSec=10
TimeoutStopSec=30
{account}
# what it may do: gain no rights, speak IP and Unix sockets
NoNewPrivileges=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
UMask=0077
{inside}
[Install]
WantedBy={target}
"""
INSIDE = """\
# read the system, write into its folder
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={writable}
PrivateTmp=yes
PrivateDevices=yes
CapabilityBoundingSet=
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
"""


class Service(NamedTuple):
    """A unit: its name, its text, and what a person types to install it."""

    name: str
    text: str
    install: tuple[str, ...]


def make_service(name: str, what: str, command: Sequence[str], folder: Path, *, account: str | None = None) -> Service:
    """Return a system unit that runs under the given account or, without an account, a user unit.

    Parameters
    ----------
    name : str
        The unit's name, without ``.service``.
    what : str
        A description of the unit.
    command : sequence of str
        The arguments of ``fedspca``.
    folder : Path
        The folder that it writes into.
    account : str, optional
        The account of a system unit.
    """
    unit = f"{re.sub(r'[^A-Za-z0-9_-]+', '-', name)}.service"
    place = Path("/etc/systemd/system") if account else Path("~/.config/systemd/user")
    text = UNIT.format(
        what=_line(what),
        place=place / unit,
        command=" ".join(map(_quoted, [sys.executable, "-m", "fedspca", *command])),
        folder=_specifier(str(folder)),
        environment=ENVIRONMENT,
        account=f"User={account}\n" if account else "",
        inside=INSIDE.format(writable=_quoted(str(folder))) if account else "",
        cache=_quoted(f"FEDSPCA_CACHE={folder / 'cache'}"),  # prepared copies of large files
        target="multi-user.target" if account else "default.target",
    )
    return Service(unit, text, _install(unit, place, system=account is not None))


def site_service(folder: Path, site: str, study: str, account: str | None) -> Service:
    """Return the unit that keeps a site connected."""
    command = ["site", "join", "--site", str(folder)]
    what = f"fedspca: site {site} in study {study}"
    return make_service(f"fedspca-site-{site}", what, command, folder, account=account)


def study_service(folder: Path, study: str, account: str | None) -> Service:
    """Return the unit that keeps a study's server running, and resumes an interrupted run."""
    command = ["study", "serve", str(folder)]
    return make_service(f"fedspca-study-{study}", f"fedspca: study {study}", command, folder, account=account)


def _install(unit: str, place: Path, *, system: bool) -> tuple[str, ...]:
    if system:
        return (f"sudo cp {unit} {place}/", "sudo systemctl daemon-reload", f"sudo systemctl enable --now {unit}")
    return (
        f"mkdir -p {place} && cp {unit} {place}/",
        "systemctl --user daemon-reload",
        f"systemctl --user enable --now {unit}",
        "loginctl enable-linger   # so that it runs while you are not logged in",
    )


def _line(text: str) -> str:
    """A text without line breaks and without characters that systemd would replace."""
    return "".join(letter for letter in text if letter.isprintable()).replace("%", "%%").replace("\\", "/")


def _specifier(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(argument: str) -> str:
    """An argument as systemd reads it: its own quotes, backslashes, variables and specifiers are escaped."""
    if any(not letter.isprintable() for letter in argument):
        raise ValueError(f"A unit cannot hold a path like {argument!r}: it has letters that cannot be printed.")
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if escaped != argument or re.search(r"[\s';]", argument) else argument
