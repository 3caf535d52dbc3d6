"""A coordinator that keeps to the masking protocol and asks whatever it likes of real doors."""

import numpy as np

from fedspca.federation.base import FederationError
from fedspca.federation.secure import masked_federation
from helpers.letters import conversation_with


def masked(sites, **terms):
    """Return a masked federation over the doors of these sites."""
    given = {"masked": True, "min_sites": 3, "consensus_under_masks": True, **terms}
    return masked_federation(conversation_with(sites, **given))


def frame(d, mean=0.0, scale=1.0):
    """Return the arrays of a frame."""
    return {"mean": np.full(d, float(mean)), "scale": np.full(d, float(scale)), "removed": np.zeros((d, 0))}


def fails(federation, query):
    """Return whether the sum says that somebody could not answer."""
    try:
        federation.sum(query)
    except FederationError:
        return True
    return False
