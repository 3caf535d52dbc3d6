import numpy as np

from fedspca.data import Columns, choose, open_table, read_sites
from helpers.reading import read


def test_the_first_values_do_not_decide_between_whole_numbers_and_others(tmp_path):
    lines = ["a,b,c", *(["1,,true"] * 300_000), "1.5,2,false"]  # more than a block
    (tmp_path / "late.csv").write_text("\n".join(lines))
    (site,) = read(tmp_path / "late.csv")
    np.testing.assert_array_equal(site.rows[-1], [1.5, 2.0, 0.0])
    assert np.isnan(site.rows[0, 1])


def test_european_files(tmp_path):
    from fedspca.data import TextOptions

    (tmp_path / "eu.csv").write_bytes("größe;höhe\n1,5;2\n3,25;4\n".encode("latin-1"))
    options = TextOptions(encoding="latin-1", decimal=",")
    table = open_table(tmp_path / "eu.csv", options)
    features = choose(table.where, table.columns, Columns())
    (site,) = read_sites(tmp_path / "eu.csv", features, Columns(), name="eu", options=options)
    assert [feature.name for feature in features] == ["größe", "höhe"]
    np.testing.assert_array_equal(site.rows, [[1.5, 2], [3.25, 4]])
