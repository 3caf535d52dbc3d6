"""Institutions on machines of their own: one reached directly, one behind NAT, one behind a proxy with a password."""

from pathlib import Path

import pytest

pytest.importorskip("flwr")

from institutions import Institutions, institutions
from namespaces import COORDINATOR, PASSWORD, Namespaces, obstacle

SITES = ("east", "north", "south")


class Apart(Institutions):
    """Institutions of which each has a network namespace."""

    def __init__(self, home, sites, net=None, **settings):
        self.net, self._own, self.clocks = net or Namespaces(), net is None, {}
        try:
            super().__init__(home, sites, host=COORDINATOR, **settings)
        except BaseException:
            if self._own:
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
        place = self.place(arguments)
        return ({"HTTPS_PROXY": proxy} if place == "east" else {}) | self.clocks.get(place, {})

    def set_clock(self, name, offset):
        """Let the clock of a machine be wrong, for the commands that are typed there from now on."""
        library = next(iter(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), None)
        if library is None:
            pytest.skip("the clock of a machine is changed by libfaketime (Debian's faketime)")
        wrong = {"LD_PRELOAD": str(library), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self.clocks = {name: wrong} if offset else {}

    def reached_at(self, host, *certificate):
        """Give the coordinator's machine another host, and let every site take its invitation again."""
        self.run("study", "stop", "trial")
        was = next(line for line in self.settings.splitlines() if line.startswith("host ="))
        self.settings = self.settings.replace(was, f'host = "{host}"')
        self.study_file.write_text(self.settings)
        said = self.run("study", "renew", "trial", *certificate)
        assert all(f"{name}.invitation" in said for name in self.sites)
        self.run("study", "start", "trial")
        for name in self.sites:
            self.run("site", "stop", "--site", name)
            self.people.pop(name).wait(30)
            self.run("site", "join", f"trial/invitations/{name}.invitation", "--site", name, "--reply-only")
            self.back(name)

    def close(self):
        try:
            super().close()
        finally:
            if self._own:
                self.net.close()


@pytest.fixture(scope="session")
def far():
    if (reason := obstacle()) is not None:
        pytest.skip(reason)
    yield from institutions(SITES, kind=Apart)


@pytest.fixture
def other(far):
    """A second coordinator on the same machines, with sites of its own beside the first one's."""
    yield from institutions(SITES, kind=Apart, net=far.net)


@pytest.fixture
def apart(far):
    far.settle()
    far.change()
    return far
