"""The bundle from which others can check a finished study: its agreement, questions, sums, statements and model.

::

    manifest                the digest of every other file, signed by the coordinator
    agreement.json          what owners agreed to
    approvals/SITE          each owner's signature under the agreement
    rounds/000001, …        each question, and the sum that came of it, as integers, with its tag
    statements/SITE         what each site stated at the end, signed: the questions and sums it took part in, its model
    model/                  the result

The bundle contains no rows, and no terms of a single site. :mod:`fedspca.study.verify` checks it.

Two rules may never change. An altered, missing or added file is detected. Reading a bundle never runs code from it.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement, read_agreement
from fedspca.door.session import put_question, question
from fedspca.federation.base import Aggregate, Around, Federation
from fedspca.federation.secure import SecureFederation
from fedspca.files import new_file, new_folder
from fedspca.letters.identity import Identity, InvalidSignature, signed_payload
from fedspca.letters.wire import MAX_BYTES, Message, WireError, decode, encode
from fedspca.masking.messages import PREVIOUS, SUMMED
from fedspca.model import SparsePCAModel
from fedspca.site.question import Query

FORMAT = "fedspca-bundle-1"
MANIFEST = "manifest"
MOST_FILES = 100_000


class InvalidBundle(ValueError):
    """The folder is not a bundle, or a part of the bundle was altered, removed or added."""


@dataclass(frozen=True)
class RoundKept:
    """A question, the number of its round, who is in the sum, and the sum as integers."""

    number: int
    query: Query
    sites: tuple[str, ...]
    vector: NDArray[np.uint64]


class Recorded(Around):
    """A masked federation whose questions and sums are written to files, one file per round.

    Parameters
    ----------
    federation : Federation
        The federation that answers.
    inside : SecureFederation
        The masked federation inside it, which knows the sums as integers.
    folder : Path
        Where the files are written.
    """

    def __init__(self, federation: Federation, inside: SecureFederation, folder: Path) -> None:
        super().__init__(federation)
        self._inside = inside
        self._folder = folder
        self._number = 0

    def sum(self, query: Query) -> Aggregate:
        """Ask a question, and write the question and the sum to a file."""
        answer = self._federation.sum(query)
        self._number += 1
        (asked, arrays), (told, summed) = put_question(query), self._inside.last_sum
        with new_file(self._folder / f"{self._number:06d}") as draft:
            draft.write_bytes(encode(Message("round", {**asked, **told}, {**arrays, **summed})))
        return answer


def write_bundle(
    path: Path,
    agreement: Agreement,
    coordinator: Identity,
    rounds: Path,
    papers: Mapping[str, Mapping[str, bytes]],
    model: SparsePCAModel,
) -> None:
    """Write the bundle of a study. An existing bundle is replaced.

    Parameters
    ----------
    path : Path
        Where it goes.
    agreement : Agreement
        The terms.
    coordinator : Identity
        The coordinator's keys, which sign the manifest.
    rounds : Path
        The questions and sums, as :class:`Recorded` wrote them.
    papers : mapping
        The signed ``approvals`` and ``statements``, by site.
    model : SparsePCAModel
        The result.
    """
    with new_folder(path) as draft:
        draft.chmod(0o755)
        (draft / "agreement.json").write_text(agreement.text(), encoding="utf-8")
        shutil.copytree(rounds, draft / "rounds")
        for kind, letters in papers.items():
            (draft / kind).mkdir()
            for site, letter in letters.items():
                (draft / kind / site).write_bytes(letter)
        model.save(draft / "model")
        content = {"format": FORMAT, "agreement": agreement.hash, "files": digests(draft)}
        (draft / MANIFEST).write_bytes(coordinator.sign(json.dumps(content, sort_keys=True).encode()))


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a bundle but the manifest, by its path."""
    paths = [path for path in sorted(folder.rglob("*")) if _is_file(path) and path != folder / MANIFEST]
    if len(paths) > MOST_FILES:
        raise InvalidBundle(f"{folder}: {len(paths)} files are more than a bundle has.")
    if strange := [path for path in paths if path.is_symlink() or not path.is_file()]:
        raise InvalidBundle(f"{strange[0]}: it is no plain file.")
    return {path.relative_to(folder).as_posix(): _digest(path) for path in paths}


def _is_file(path: Path) -> bool:
    return path.is_symlink() or not path.is_dir()  # a link to a folder does not count as a folder of the bundle


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path, agreement: Agreement) -> dict[str, str]:
    """Return the digests that the coordinator of the agreement signed."""
    content = _json(signed(folder / MANIFEST, agreement.coordinator, "the coordinator"), folder / MANIFEST)
    files = content.get("files")
    if content.get("format") != FORMAT or not isinstance(files, dict):
        raise InvalidBundle(f"{folder / MANIFEST}: it is not the manifest of a bundle.")
    return {str(name): str(digest) for name, digest in files.items()}


def read_terms(folder: Path) -> Agreement:
    """Return the agreement of a bundle."""
    return read_agreement(_content(folder / "agreement.json"))


def signed(path: Path, public: str, whose: str) -> bytes:
    """Return what somebody signed in a file of a bundle."""
    try:
        return signed_payload(_content(path), public, whose)
    except InvalidSignature as error:
        raise InvalidBundle(f"{path}: {error}") from None


def statement(path: Path, public: str, site: str) -> Message:
    """Return what a site stated at the end."""
    try:
        return decode(signed(path, public, f"site {site!r}"))
    except WireError as error:
        raise InvalidBundle(f"{path}: {error}") from None


def read_rounds(folder: Path) -> list[Path]:
    """Return the files of the rounds, in order."""
    paths = sorted((folder / "rounds").glob("*"))
    if not paths or [path.name for path in paths] != [f"{number:06d}" for number in range(1, len(paths) + 1)]:
        raise InvalidBundle(f"{folder / 'rounds'}: rounds are missing, or there are none.")
    return paths


def read_round(path: Path) -> RoundKept:
    """Return a question and its sum."""
    try:
        message = decode(_content(path))
        vector, sites = message.arrays[PREVIOUS], message.fields[SUMMED]
        plain = {name: array for name, array in message.arrays.items() if name != PREVIOUS}
        query = question(path.name, Message(message.kind, message.fields, plain))
        number = message.number(PREVIOUS)
    except (WireError, KeyError, RuntimeError) as error:
        raise InvalidBundle(f"{path}: it holds no question with its sum ({error}).") from None
    if vector.dtype != np.uint64 or vector.ndim != 1 or not isinstance(sites, list) or sites != sorted(map(str, sites)):
        raise InvalidBundle(f"{path}: it holds no sum over named sites.")
    return RoundKept(number, query, tuple(sites), vector)


def _content(path: Path) -> bytes:
    """Return the bytes of a regular file. Links and devices are refused, because a bundle may come from anyone."""
    if ".." in path.parts or path.is_symlink() or not path.is_file():
        raise InvalidBundle(f"{path}: it is not there, so this is not the bundle of a study.")
    if path.stat().st_size > MAX_BYTES:
        raise InvalidBundle(f"{path}: it is longer than anything in a bundle.")
    return path.read_bytes()


def _json(content: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InvalidBundle(f"{path}: it is not JSON.")
    return found
