"""Checkpoints: an interrupted fit continues from the last round and ends with the same bits.

The sums are saved in a :class:`~fedspca.federation.journal.Journal`. After a restart, they are read from there, and
sites get back the state that they had after the last saved round. Solvers need no code for this.
"""

import shutil
import time
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fedspca.federation.base import Aggregate, Around, Federation
from fedspca.federation.journal import InvalidCheckpoint, Journal
from fedspca.files import new_file
from fedspca.site.question import Query
from fedspca.site.site import Site

SITES = "sites.npz"
PAUSE = 0.25  # seconds between snapshots of the sites; a killed fit repeats little more than this
SHARE = 20  # writing snapshots takes at most 1/SHARE of the time


class CheckpointedFederation(Around):
    """Sites in this process, whose answers are kept in a folder until the fit is done.

    Parameters
    ----------
    federation : Federation
        Who answers.
    sites : iterable of Site
        The same sites, to save their states.
    folder : Path
        Where answers are kept.
    identity : str
        Identifies the settings and the data. A checkpoint of another fit is refused.
    pause : float
        Seconds between writing snapshots of the sites; 0 writes one after every round.
    """

    def __init__(
        self, federation: Federation, sites: Iterable[Site], folder: Path, identity: str, *, pause: float = PAUSE
    ) -> None:
        super().__init__(federation)
        self._sites = sorted(sites, key=lambda site: site.name)
        self._pause = pause
        self._number = 0
        self._snapshot: tuple[int, list[dict[str, Any]]] | None = None
        self._due = time.monotonic() + pause
        self._journal = Journal(folder, identity)
        self._replayed = self._begin()

    @property
    def replayed(self) -> int:
        """How many rounds are answered from the checkpoint."""
        return self._replayed

    def sum(self, query: Query) -> Aggregate:
        """Answer from what was kept, or ask every site and keep the sum."""
        self._number += 1
        if self._number <= self._replayed:
            answer = self._journal.kept(self._number, query)[0]
            assert answer is not None  # sites in this process are not lost
            return answer
        answer = self._federation.sum(query)
        self._journal.keep(self._number, query, answer)
        # taken between rounds: during a round, some sites may have answered and others not
        self._snapshot = (self._number, [site.snapshot() for site in self._sites])
        if time.monotonic() >= self._due:
            self.save()
        return answer

    def save(self) -> None:
        """Write the sites' state as of the last round that all of them answered. Rounds after it are asked again."""
        if self._snapshot is None:
            return
        began = time.monotonic()
        kept: dict[str, Any] = {"round": np.array(self._snapshot[0])}
        for number, arrays in enumerate(self._snapshot[1]):
            kept |= {f"{number}.{name}": array for name, array in arrays.items()}
        with new_file(self._journal.folder / SITES) as draft, draft.open("wb") as file:
            np.savez(file, **kept)
        now = time.monotonic()
        self._due = now + (max(self._pause, SHARE * (now - began)) if self._pause else 0.0)

    def remove(self) -> None:
        """Forget everything, once the fit is done."""
        shutil.rmtree(self._journal.folder, ignore_errors=True)

    def _begin(self) -> int:
        """Restore the sites' states after the last round that can be replayed; return the number of such rounds."""
        path = self._journal.folder / SITES
        if not path.exists():
            return 0
        try:
            with np.load(path, allow_pickle=False) as kept:
                arrays = dict(kept)
            for number, site in enumerate(self._sites):
                prefix = f"{number}."
                site.restore({name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)})
            return int(arrays["round"])
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, zipfile.BadZipFile):
            raise InvalidCheckpoint(f"{path}: the file was cut off or altered; begin anew without --resume.") from None
