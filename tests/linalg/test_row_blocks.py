import numpy as np

from fedspca.linalg.feature_sums import column_sums
from fedspca.linalg.row_blocks import row_blocks


def test_a_mapped_file_is_read_as_it_is_and_its_pages_given_back(tmp_path):
    rows = np.random.default_rng(0).standard_normal((5000, 300))
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert np.array_equal(np.vstack([block.copy() for block in row_blocks(np.asarray(mapped))]), rows)
    assert np.array_equal(column_sums(mapped[10:]), column_sums(rows[10:]))
