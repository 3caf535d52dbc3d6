"""One question of a consensus round."""

import numpy as np

from fedspca import Query


def question(iteration, z=None):
    scalars = {"iteration": iteration, "rho": 10.0, "seed": 1, "deflation": "orthogonal"}
    arrays = {"z": np.zeros((3, 1)) if z is None else z}
    if iteration == 0:
        arrays |= {"mean": np.zeros(3), "scale": np.ones(3), "removed": np.zeros((3, 0))}
    return Query("faspca_step", arrays, scalars)
