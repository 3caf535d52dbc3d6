"""The files that people exchange before the machines can connect: an invitation to a site, and the site's reply.

Both are small signed texts that go by mail. An invitation holds the coordinator's address and public key. A reply holds
the site's public keys and the names of its features, but no values from its rows.
"""

import json
import re
import secrets
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from fedspca.files import new_file
from fedspca.letters.identity import Identity, InvalidSignature, signed_payload

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,62}")
LONGEST = 1 << 26


class InvalidPaper(ValueError):
    """A text that is not an invitation or a reply, or that was altered on its way."""


@dataclass(frozen=True)
class Invitation:
    """The address of a study's coordinator, and the keys by which a site recognises the coordinator.

    Attributes
    ----------
    study, site : str
        The names of the study and of the invited site.
    host, port : str, int
        Where the site connects to.
    authority : str
        The certificate of the study's own authority, which proves the identity of the coordinator's machine.
    coordinator : str
        The coordinator's public key: every question is signed with it.
    token : str
        A secret that the reply must bring back.
    """

    study: str
    site: str
    host: str
    port: int
    authority: str
    coordinator: str
    token: str


@dataclass(frozen=True)
class Reply:
    """Who a site is: the public key that verifies its messages, the public key of its Flower node, and its features."""

    study: str
    site: str
    token: str
    public: str
    node: str
    schema: str


Paper = TypeVar("Paper", Invitation, Reply)


def invite(study: str, site: str, host: str, port: int, authority: str, coordinator: Identity) -> Invitation:
    """Write an invitation to one site."""
    return Invitation(study, check_name(site), host, port, authority, coordinator.public, secrets.token_hex(16))


def check_name(site: str) -> str:
    """Return a site's name that can also name a file, or refuse it."""
    if not NAME.fullmatch(site):
        raise ValueError(f"The name of a site must be letters, digits, dots, dashes and spaces. Got {site!r} instead.")
    return site


def write_paper(paper: Invitation | Reply, path: Path, signer: Identity) -> None:
    """Write a paper, signed."""
    content = json.dumps({"format": _format(type(paper)), **asdict(paper)}, sort_keys=True, ensure_ascii=True)
    letter = signer.sign(content.encode())
    with new_file(path, private=True) as draft:
        draft.write_text(json.dumps({"content": content, "signature": _signature(letter)}, indent=1), encoding="utf-8")


def read_paper(path: Path, kind: type[Paper], key: str) -> Paper:
    """Read a paper and check its signature with the public key that the paper itself contains.

    Parameters
    ----------
    path : Path
        The file.
    kind : type
        Invitation or Reply.
    key : str
        Which of its fields holds the signer's public key.
    """
    if not path.is_file():
        raise InvalidPaper(f"{path}: there is no such file.")
    if path.stat().st_size > LONGEST:
        raise InvalidPaper(f"{path}: the file is too long for an {kind.__name__.lower()}.")
    try:
        return parse_paper(path.read_text(encoding="utf-8"), kind, key)
    except (UnicodeDecodeError, InvalidPaper) as error:
        raise InvalidPaper(f"{path}: {error}") from None


def parse_paper(text: str, kind: type[Paper], key: str) -> Paper:
    """Return the paper that a text holds, or raise :class:`InvalidPaper`."""
    word = kind.__name__.lower()
    try:
        outer = json.loads(text)
        content = json.loads(outer["content"])
        signature = bytes.fromhex(outer["signature"])
        form = content.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InvalidPaper(f"it is not a fedspca {word}.") from None
    kinds: dict[str, Any] = {about.name: about.type for about in fields(kind)}
    if form != _format(kind) or set(content) != set(kinds):
        raise InvalidPaper(f"it is not a fedspca {word} of this version.")
    if not all(type(content[name]) is expected for name, expected in kinds.items()):
        raise InvalidPaper(f"the {word} has a part of the wrong type.")
    try:
        signed_payload(
            bytes([len(signature) % 256]) + signature + outer["content"].encode(), content[key], "its writer"
        )
        check_name(content["site"])
    except (InvalidSignature, ValueError) as error:
        raise InvalidPaper(f"the {word} was altered on its way, or is incomplete. ({error})") from None
    return kind(**content)


def _signature(letter: bytes) -> str:
    return letter[1 : 1 + letter[0]].hex()


def _format(kind: type) -> str:
    return f"fedspca-{kind.__name__.lower()}-1"
