"""What a site keeps of a study between messages: the agreement, the owner's approval, and the state of the rounds.

A store on disk writes each file completely or not at all. So a site that is stopped at any moment can continue from
there.
"""

import hashlib
import re
import shutil
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement, read_agreement
from fedspca.files import new_file
from fedspca.letters.identity import Identity, InvalidSignature, signed_payload
from fedspca.letters.wire import Message, WireError, decode, encode

HASH = re.compile(r"[0-9a-f]{64}")
RUN = re.compile(r"[0-9a-f]{32}")
CHECKSUM = 32
ROWS = "study:rows"  # among a session's secrets: the totals of the rows with which the study began


class Store(Protocol):
    """Where a site keeps what it knows of studies."""

    def propose(self, agreement: Agreement) -> None:
        """Keep an agreement for the owner to read."""

    def approved(self, study: str) -> Agreement | None:
        """Return the agreement with this hash, if the owner has approved it."""

    def approval(self, study: str) -> bytes:
        """Return the owner's signature under an agreement; nothing where none is needed."""

    def load(self, study: str) -> Message | None:
        """Return where the rounds of a study stand."""

    def save(self, study: str, state: Message) -> None:
        """Keep where the rounds of a study stand."""

    def keep_sum(self, study: str, run: str, number: int, summed: Message) -> None:
        """Keep the sum of a round; sums of other runs of the study are deleted."""

    def kept_sum(self, study: str, run: str, number: int) -> Message:
        """Return the sum of a round."""


class MemoryStore:
    """A store for sites in this process, whose owner approves whatever is proposed."""

    def __init__(self) -> None:
        self._agreements: dict[str, Agreement] = {}
        self._states: dict[str, bytes] = {}
        self._sums: dict[tuple[str, str], dict[int, Message]] = {}

    def propose(self, agreement: Agreement) -> None:
        """Keep an agreement."""
        self._agreements[agreement.hash] = agreement

    def approved(self, study: str) -> Agreement | None:
        """Return the agreement with this hash."""
        return self._agreements.get(study)

    def approval(self, study: str) -> bytes:
        """Return nothing: whatever is proposed is approved."""
        return b""

    def load(self, study: str) -> Message | None:
        """Return where the rounds of a study stand."""
        return decode(self._states[study]) if study in self._states else None

    def save(self, study: str, state: Message) -> None:
        """Keep where the rounds of a study stand."""
        self._states[study] = encode(state)

    def keep_sum(self, study: str, run: str, number: int, summed: Message) -> None:
        """Keep the sum of a round; sums of other runs of the study are deleted."""
        for other in [key for key in self._sums if key[0] == study and key[1] != run]:
            del self._sums[other]
        self._sums.setdefault((study, run), {})[number] = summed

    def kept_sum(self, study: str, run: str, number: int) -> Message:
        """Return the sum of a round."""
        return self._sums[study, run][number]


class FolderStore:
    """A store in a folder of the site's.

    Parameters
    ----------
    folder : Path
        Where studies are kept, each in a folder named by the hash of its agreement.
    identity : Identity
        The site's keys: an approval counts if it was signed with them.
    """

    def __init__(self, folder: Path, identity: Identity) -> None:
        self._folder = folder
        self._identity = identity

    def propose(self, agreement: Agreement) -> None:
        """Keep an agreement for the owner to read. It takes the place of others that were not approved."""
        home = self._home(agreement.hash)
        if (home / "agreement.json").exists():
            (home / "agreement.json").touch()  # proposed again, it is the one that the owner is to read
            return
        for other in self.studies():
            home_of_other = self._home(other.hash)
            # a record of answers must be kept, even if the owner has withdrawn the approval since
            if self.approved(other.hash) is None and not (home_of_other / "state").exists():
                shutil.rmtree(home_of_other, ignore_errors=True)
        with new_file(home / "agreement.json") as draft:
            draft.write_text(agreement.text(), encoding="utf-8")

    def studies(self) -> list[Agreement]:
        """Return the agreements that were proposed, the one that was proposed last at the end."""
        paths = sorted(self._folder.glob("*/agreement.json"), key=lambda path: path.stat().st_mtime_ns)
        return [read_agreement(path.read_text(encoding="utf-8")) for path in paths]

    def approve(self, agreement: Agreement) -> None:
        """Sign the hash of an agreement with the site's key."""
        with new_file(self._home(agreement.hash) / "approval", private=True) as draft:
            draft.write_bytes(self._identity.sign(words_of_approval(agreement.hash)))

    def withdraw(self, agreement: Agreement) -> None:
        """Take the approval back: the site answers nothing more."""
        (self._home(agreement.hash) / "approval").unlink(missing_ok=True)

    def approved(self, study: str) -> Agreement | None:
        """Return the agreement with this hash, if the approval bears the signature of this site's key."""
        home = self._home(study)
        try:
            approval = signed_payload((home / "approval").read_bytes(), self._identity.public, "the owner")
            agreement = read_agreement((home / "agreement.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, InvalidSignature):
            return None
        return agreement if agreement.hash == study and approval == words_of_approval(study) else None

    def approval(self, study: str) -> bytes:
        """Return the owner's signature under an agreement, if there is one."""
        path = self._home(study) / "approval"
        return path.read_bytes() if path.exists() else b""

    def load(self, study: str) -> Message | None:
        """Return where the rounds of a study stand; a file that was altered is refused."""
        path = self._home(study) / "state"
        return _read(path) if path.exists() else None

    def rows_of(self, study: str) -> NDArray[np.float64] | None:
        """Return the totals of the rows with which a study began; None if the site has answered nothing of it."""
        kept = self.load(study)
        return None if kept is None else kept.arrays.get(f"secret:{ROWS}")

    def save(self, study: str, state: Message) -> None:
        """Keep where the rounds of a study stand."""
        _write(self._home(study) / "state", state)

    def keep_sum(self, study: str, run: str, number: int, summed: Message) -> None:
        """Keep the sum of a round; sums of other runs of the study are deleted."""
        home = self._sums(study, run)
        if not home.exists():
            shutil.rmtree(home.parent, ignore_errors=True)
        _write(home / f"{number:06d}", summed)

    def kept_sum(self, study: str, run: str, number: int) -> Message:
        """Return the sum of a round; a file that was altered is refused."""
        return _read(self._sums(study, run) / f"{number:06d}")

    def model_folder(self, study: str) -> Path:
        """Return where the result of a study goes."""
        return self._home(study) / "model"

    def _sums(self, study: str, run: str) -> Path:
        if not RUN.fullmatch(run):  # it becomes the name of a folder
            raise WireError("The name of a run must be 32 hexadecimal digits.")
        return self._home(study) / "sums" / run

    def _home(self, study: str) -> Path:
        if not HASH.fullmatch(study):  # it becomes the name of a folder
            raise WireError("The hash of a study must be 64 hexadecimal digits.")
        return self._folder / study


def _read(path: Path) -> Message:
    content = path.read_bytes()
    if hashlib.sha256(content[CHECKSUM:]).digest() != content[:CHECKSUM]:
        raise WireError(f"{path}: the file was cut off or altered, so the site cannot go on with this study.")
    return decode(content[CHECKSUM:])


def _write(path: Path, message: Message) -> None:
    content = encode(message)
    with new_file(path, private=True) as draft:
        draft.write_bytes(hashlib.sha256(content).digest() + content)


def words_of_approval(study: str) -> bytes:
    """Return what an owner signs."""
    return f"fedspca: the owner approves the study {study}".encode()
