import pytest

from fedspca.experiments.reproduce import FOLDER, read_numbers
from helpers.experiments import DOCS


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(DOCS / FOLDER)
