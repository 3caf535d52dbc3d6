import pytest

from fedspca.site.answers.products import random_directions


def test_the_directions_of_a_seed_cannot_be_changed():
    directions = random_directions(3, (5, 2))
    with pytest.raises(ValueError, match="read-only"):
        directions[0, 0] = 0.0
