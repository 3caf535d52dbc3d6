import pytest

from fedspca.federation.channel import LocalChannel
from fedspca.study.coordinator import StudyFolder
from helpers.studies import SITES, join, study, write_tables


@pytest.fixture
def files(tmp_path):
    return write_tables(tmp_path)


@pytest.fixture
def between(files):
    folder = StudyFolder.create(files / "trial", study())
    sites = {name: join(folder, files, name) for name in SITES}
    return folder, sites, LocalChannel({name: site.endpoint() for name, site in sites.items()})
