"""Institutions that the drills of a study share."""

import pytest

pytest.importorskip("flwr")

from institutions import institutions


@pytest.fixture(scope="session")
def three_sites():
    yield from institutions(("east", "north", "south"), **{"no-masked": True})


@pytest.fixture(scope="session")
def masked_sites():
    yield from institutions(("east", "north", "south", "west"))


@pytest.fixture
def three(three_sites):
    three_sites.settle()
    return three_sites


@pytest.fixture
def masked(masked_sites):
    masked_sites.settle()
    return masked_sites
