"""The app that is shipped to the sites holds no code."""

import tomllib

from fedspca._version import __version__
from fedspca.study.flower_app import failure_file, write_app


def test_the_app_is_one_settings_file_that_names_this_package(tmp_path):
    folder = write_app(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["pyproject.toml"]
    written = tomllib.loads((folder / "pyproject.toml").read_text())
    assert written["project"]["version"] == __version__
    components = written["tool"]["flwr"]["app"]["components"]
    assert components["serverapp"] == "fedspca.study.server_app:app"
    assert components["clientapp"] == "fedspca.study.client_app:app"
    assert set(written["tool"]["flwr"]["app"]["config"]) >= {"folder", "action"}
    assert write_app(tmp_path) == folder  # again is no error


def test_where_a_failure_is_told(tmp_path):
    assert failure_file(tmp_path, 7).parent.parent == tmp_path
