"""A high power of each site's variance along directions, summed: from many of them each site's own matrix follows."""

import numpy as np
import pytest
from scipy.optimize import least_squares

from fedspca import Query, Site, SiteRefusal
from helpers.hostile import frame, masked

SCALES = ((3.0, 1.0), (1.0, 2.5), (2.0, 2.0))
ANGLES = np.linspace(0.0, np.pi, 30, endpoint=False)
DIRECTIONS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


def tables():
    mixed = np.array([[1.0, 0.5], [0.0, 1.0]])
    return [np.random.default_rng(k).standard_normal((20, 2)) * scale @ mixed for k, scale in enumerate(SCALES)]


def asked(direction):
    """The curvature of what is left when all that is at a right angle to a direction is removed."""
    removed = np.array([[-direction[1]], [direction[0]]])
    return Query("curvature", {**frame(2), "removed": removed}, {"reference": 100.0})


def along(values):
    """Each site's variance along each direction, from the three numbers of its matrix."""
    a, b, c = values.reshape(3, 3).T[:, :, None]
    x, y = DIRECTIONS.T
    return a * x**2 + 2 * b * x * y + c * y**2


def numbers():
    return np.array([(part.T @ part)[[0, 0, 1], [0, 1, 1]] for part in tables()])


def test_where_consensus_is_approved_it_tells_every_sites_matrix():
    federation = masked([Site(f"s{k}", table) for k, table in enumerate(tables())])
    told = np.array([federation.sum(asked(direction)).number("curvature") for direction in DIRECTIONS])
    total = numbers().sum(axis=0)  # from gram

    def misfit(values):
        powers = 16 * np.log(np.abs(along(values)) / 100.0)
        return np.append(np.logaddexp.reduce(powers, axis=0) - np.log(told), values.reshape(3, 3).sum(axis=0) - total)

    start = numbers() * np.random.default_rng(0).uniform(0.8, 1.2, (3, 3))
    found = least_squares(misfit, start.ravel(), xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=2000).x.reshape(3, 3)
    assert np.allclose(found, numbers(), rtol=1e-4)


def test_by_default_it_is_refused_under_masks():
    federation = masked([Site(f"s{k}", table) for k, table in enumerate(tables())], consensus_under_masks=False)
    with pytest.raises(SiteRefusal, match="has not approved that by name"):
        federation.sum(asked(DIRECTIONS[0]))
