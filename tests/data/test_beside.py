import tracemalloc

import numpy as np
import pandas as pd
import pytest

from fedspca.data import Columns
from fedspca.data.beside import GatheredColumn, KeptColumns
from helpers.reading import read

TEXTS = np.array(["ü", None, "a b", "ü", ""], dtype=object)


def gathered(*parts):
    column = GatheredColumn()
    for part in parts:
        column.add(part)
    return column


def test_kept_columns_are_those_that_were_gathered(tmp_path):
    numbers = np.array([1.5, np.nan, -2.0])
    gathered(TEXTS[:3], TEXTS[3:]).keep(tmp_path, 0, "ward")
    gathered(numbers).keep(tmp_path, 0, "age")
    gathered(TEXTS[:1]).keep(tmp_path, 1, "ward")
    kept = KeptColumns(tmp_path, 0, ("ward", "age", "ward"))
    assert list(kept) == ["ward", "age"]
    assert list(kept["ward"]) == list(TEXTS) == list(gathered(TEXTS[:3], TEXTS[3:]).values())
    assert np.array_equal(kept["age"], numbers, equal_nan=True)
    assert list(KeptColumns(tmp_path, 1, ("ward",))["ward"]) == ["ü"]
    with pytest.raises(KeyError):
        kept["sex"]


def test_texts_of_one_level_are_one_object(tmp_path):
    texts = np.array(["".join(["fem", "ale"]) for _ in range(1000)], dtype=object)
    assert len({id(text) for text in texts}) == 1000
    assert len({id(text) for text in gathered(texts).values()}) == 1


@pytest.mark.parametrize("site", [None, "site"])
def test_covariates_do_not_keep_the_rows_in_memory(tmp_path, site, monkeypatch):
    monkeypatch.setattr("fedspca.data.tables.BLOCK_BYTES", 1 << 18)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((20_000, 60)), columns=[f"f{j}" for j in range(60)])
    table["age"], table["sex"] = rng.integers(0, 80, 20_000).astype(float), np.where(rng.random(20_000) < 0.5, "f", "m")
    table["site"] = np.arange(20_000) % 3
    table.to_parquet(tmp_path / "a.parquet")
    features = 60 + (site is None)
    columns = Columns(covariates=("age", "sex"), site=site)
    read(tmp_path / "a.parquet", columns)  # imports what it needs
    tracemalloc.start()
    sites = read(tmp_path / "a.parquet", columns, cache=tmp_path / "cache", in_memory=0)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert sum(part.rows.shape[0] for part in sites) == 20_000
    assert {part.rows.shape[1] for part in sites} == {features}
    assert peak < 4.0  # a block of rows, its copies, and the covariates; all rows take 9.8 MB
