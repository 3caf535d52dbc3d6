"""Which Flower is supported, in words."""

import tomllib
from pathlib import Path

import pytest

from fedspca.flower.versions import BEYOND, LOWEST, UnsupportedFlower, check_flower


@pytest.mark.parametrize("found", ["1.41.0", "1.41.7"])
def test_tested_releases_pass(found):
    check_flower(found)


@pytest.mark.parametrize("found", ["1.40.9", "1.42.0", "2.0", "nonsense"])
def test_others_are_refused_in_words(found):
    with pytest.raises(UnsupportedFlower, match=f"Flower {found} is installed; supported are .* pip install"):
        check_flower(found)


def test_the_bounds_are_those_of_the_package():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    bounds = ">={}.{},<{}.{}".format(*LOWEST, *BEYOND)
    assert f"flwr{bounds}" in extras["flower"]
    assert f"flwr[simulation]{bounds}" in extras["simulation"]
