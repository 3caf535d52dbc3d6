import numpy as np
import pytest

from fedspca import InvalidQuery, Query, Site
from helpers.asking import question


def test_round_zero_must_bring_the_frame():
    broken = Query("faspca_step", {"z": np.zeros((3, 1))}, question(0).scalars)
    with pytest.raises(InvalidQuery, match="must bring mean, removed, scale"):
        Site("north", np.eye(3)).answer(broken)
