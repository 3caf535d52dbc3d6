"""What a new study would reveal if its sums are compared with those of a study that the site answered before.

Each study alone reveals sums over many sites and rows. The difference of two sums contains only what is in one of them:
a site that joined or left, or rows that were added to a file. Only noise hides such differences.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement
from fedspca.door.store import FolderStore
from fedspca.door.update import update_objections
from fedspca.site.errors import count
from fedspca.site.preparation import Preparation, unusual
from fedspca.site.site import Site


def told_together(agreement: Agreement, store: FolderStore, site: Site) -> list[str]:
    """Return what the difference to each earlier answered study would reveal; an empty list if nothing.

    Parameters
    ----------
    agreement : Agreement
        What the owner is asked to approve.
    store : FolderStore
        What the site keeps of studies.
    site : Site
        The rows as they now are, over the features of the study, and the owner's policy.
    """
    found = []
    updated = _updated(agreement, store.studies())
    for earlier in store.studies():
        rows = store.rows_of(earlier.hash)
        if earlier.hash == agreement.hash or rows is None or agreement.privacy or earlier.privacy:
            continue
        guarded = earlier.hash in updated  # the door checks which sites and how many rows an update adds
        told = None if guarded else _sites_in_one(agreement, earlier, site.policy.min_sites)
        told = told or _other_deal(agreement, earlier)
        told = told or _other_preparation(agreement, earlier)
        if guarded:
            told = told or next(iter(update_objections(agreement, store, site)), None)
        told = told or _rows_in_one(site, rows, same=agreement.features == earlier.features)
        if told is not None:
            found.append(f"this site answered study {earlier.study!r} before, and the difference of the sums is {told}")
    return found


def _updated(agreement: Agreement, known: Sequence[Agreement]) -> set[str]:
    """Return the hashes of the studies whose model this one updates: the last one, the one before it, and so on."""
    by_hash, found = {earlier.hash: earlier for earlier in known}, set[str]()
    update = agreement.update
    while update is not None and update["of"] not in found:
        found.add(update["of"])
        update = by_hash[update["of"]].update if update["of"] in by_hash else None
    return found


def _sites_in_one(agreement: Agreement, earlier: Agreement, least: int) -> str | None:
    """Return which sites are in only one of two masked sums, if they are few."""
    if not (agreement.masked and earlier.masked):
        return None  # the coordinator sees each site's terms anyway
    keys = set(agreement.sites.values()) ^ set(earlier.sites.values())
    names = {name for terms in (agreement, earlier) for name, key in terms.sites.items() if key in keys}
    return f"that of {', '.join(sorted(names))} alone" if 0 < len(keys) < least else None


def _other_deal(agreement: Agreement, earlier: Agreement) -> str | None:
    """Return what other folds or another sample add: enough different groups of the same rows determine each row."""
    deals = [(terms.folds, terms.sample, terms.fit.get("seed")) for terms in (agreement, earlier)]
    dealt = all(folds or sample for folds, sample, _ in deals)
    return "about other groups of rows, dealt anew" if dealt and deals[0] != deals[1] else None


def _other_preparation(agreement: Agreement, earlier: Agreement) -> str | None:
    """Return what a different preparation adds. If one study removes the site means, the difference reveals them."""
    joint = [Preparation.of(terms.fit).joint for terms in (agreement, earlier)]
    same = unusual(agreement.fit) == unusual(earlier.fit) and joint[0] == joint[1]
    return None if same else "about the sites' own means, or the rows by their covariates and weights"


def _rows_in_one(site: Site, rows: NDArray[np.float64], *, same: bool) -> str | None:
    """Return how many rows were added or removed since, if they are few. Changed rows cannot be counted."""
    changed = abs(site.n_rows - int(rows[0, 0]))
    if 0 < changed < site.policy.min_rows:
        return f"about {count(changed, 'row')} of this site that came or went since"
    if not changed and same and not site.holds(rows):
        return "about the rows of this site that were changed since"
    return None
