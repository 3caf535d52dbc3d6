"""A study that updates the model of an earlier one: what the difference of the two models would tell is guarded.

Whoever has both models can subtract their sums. What is left comes from the sites that joined, and from rows that sites
added. So the agreement names these sites, and every site checks what it can see itself:

- under masks without noise, at least as many sites add rows as its policy requires in a sum;
- a site that the agreement names adds at least ``min_rows`` rows, or has not answered the earlier study;
- any other site holds exactly the rows with which it answered the earlier study.

A site that is named and adds nothing refuses. So a coordinator cannot name sites to hide that only one adds rows.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedspca.door.agreement import Agreement
from fedspca.door.store import ROWS, Store
from fedspca.site.site import Site

FEW = "it adds fewer rows than the {least} that its policy requires"
ALONE = "the difference to the earlier model would be of {count} site(s), and its policy requires {least}"
OTHERS = "its rows are not those of the earlier model, and the study does not name it among the sites that add rows"
UNKNOWN = "it has not answered the study whose model is updated, and is not named among the sites that add rows"


def update_objections(agreement: Agreement, store: Store, site: Site) -> list[str]:
    """Return why a site does not take part in the update of a model; an empty list if it does, or if none is updated.

    Parameters
    ----------
    agreement : Agreement
        The terms.
    store : Store
        What the site keeps of earlier studies.
    site : Site
        The rows as they are now, and the owner's policy.
    """
    if agreement.update is None:
        return []
    count, policy = len(agreement.update["adds"]), site.policy
    if agreement.masked and agreement.privacy is None and count < policy.min_sites:
        return [ALONE.format(count=count, least=policy.min_sites)]
    named = site.name in agreement.update["adds"]
    before = rows_before(store, agreement.update)
    if before is None:
        return [] if named else [UNKNOWN]
    if not named:
        return [] if site.holds(before) else [OTHERS]
    return [FEW.format(least=policy.min_rows)] if abs(site.n_rows - int(before[0, 0])) < policy.min_rows else []


def rows_before(store: Store, update: Mapping[str, Any]) -> NDArray[np.float64] | None:
    """Return the totals of the rows with which a site answered the study that is updated; None if it did not."""
    kept = store.load(update["of"])
    return None if kept is None else kept.arrays.get(f"secret:{ROWS}")
