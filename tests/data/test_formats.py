import numpy as np
import pytest

from helpers.reading import dense, read
from helpers.study_files import FORMATS, frame, make_rows, write


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_gives_the_same_rows_in_memory_and_mapped(tmp_path, kind, in_memory):
    rows = make_rows()
    path = write(tmp_path / f"north.{kind}", rows)
    (site,) = read(path, cache=tmp_path / "cache", in_memory=in_memory)
    assert site.site == "north"
    np.testing.assert_array_equal(dense(site.rows), rows)


def test_single_precision_stays_single(tmp_path):
    frame(make_rows().astype(np.float32)).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")[0].rows.dtype == np.float32
