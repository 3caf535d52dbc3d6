"""Institutions on machines of their own: one reached directly, one behind NAT, one behind a proxy with a password."""

import pytest

pytest.importorskip("flwr")

from institutions import Institutions, institutions
from namespaces import COORDINATOR, PASSWORD, Namespaces, obstacle

SITES = ("east", "north", "south")


class Apart(Institutions):
    """Institutions of which each has a network namespace."""

    def __init__(self, home, sites, **settings):
        self.net = Namespaces()
        try:
            super().__init__(home, sites, host=COORDINATOR, **settings)
        except BaseException:
            self.net.close()
            raise

    def place(self, arguments):
        if arguments[0] == "study":
            return "coordinator"
        return next((site for site in SITES if site in arguments), "coordinator")

    def inside(self, arguments):
        return self.net.inside(self.place(arguments))

    def variables(self, arguments):
        name, _, password = PASSWORD.partition(":")
        proxy = f"http://{name}:{password.replace(':', '%3A')}@10.77.2.1:3128"
        return {"HTTPS_PROXY": proxy} if self.place(arguments) == "east" else {}

    def close(self):
        try:
            super().close()
        finally:
            self.net.close()


@pytest.fixture(scope="session")
def far():
    if (reason := obstacle()) is not None:
        pytest.skip(reason)
    yield from institutions(SITES, kind=Apart)


@pytest.fixture
def apart(far):
    far.settle()
    far.change()
    return far
