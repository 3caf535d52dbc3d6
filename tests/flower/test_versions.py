import pytest

from fedspca.flower import versions
from fedspca.flower.versions import UnsupportedFlower, check_flower


@pytest.mark.parametrize("release", ["1.41.0", "1.41.3", "1.42.0"])
def test_releases_that_were_tested_are_taken(release):
    check_flower(release)


@pytest.mark.parametrize("release", ["1.40.9", "1.43.0", "2.0", "unknown"])
def test_others_are_refused_with_what_to_install(release):
    with pytest.raises(UnsupportedFlower, match=r"flwr>=1\.41,<1\.43"):
        check_flower(release)


def test_without_flower_the_extra_is_named(monkeypatch):
    def missing(name):
        raise versions.PackageNotFoundError(name)

    monkeypatch.setattr(versions, "version", missing)
    with pytest.raises(UnsupportedFlower, match=r"pip install 'fedspca\[flower\]'"):
        check_flower()
