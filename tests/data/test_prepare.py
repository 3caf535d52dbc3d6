import numpy as np

from helpers.reading import read
from helpers.study_files import make_rows, write


def test_the_prepared_copy_is_used_again_until_the_file_changes(tmp_path):
    path, cache = tmp_path / "north.csv", tmp_path / "cache"
    for seed, copies in ((0, 1), (0, 1), (1, 2)):
        write(path, make_rows(seed=seed))
        (site,) = read(path, cache=cache, in_memory=0)
        np.testing.assert_array_equal(site.rows, make_rows(seed=seed))
        assert len(list(cache.iterdir())) == copies
    assert all(copy.stat().st_mode & 0o077 == 0 for copy in cache.iterdir())  # the rows are for the owner alone
