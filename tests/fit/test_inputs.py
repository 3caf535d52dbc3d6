import pytest

from helpers.study_files import NAMES


def test_names_of_sites_tell_files_apart():
    from fedspca.fit.inputs import site_names

    assert site_names(["x/a.csv.gz", "b.parquet"]) == ["a", "b"]
    assert site_names(["a.csv", "a.parquet"]) == ["a.csv", "a.parquet"]
    assert site_names(["x/a.csv", "y/a.csv"]) == ["x/a.csv", "y/a.csv"]
    with pytest.raises(ValueError, match="more than once"):
        site_names(["a.csv", "a.csv"])
    assert NAMES
