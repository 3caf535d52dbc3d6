import numpy as np
import pandas as pd
import pytest

from fedspca.federation.base import SchemaMismatch
from fedspca.fit import FitSettings, fit_files
from fedspca.fit.update import fit_update, open_update, settings_of
from fedspca.model import SparsePCAModel
from fedspca.site import InvalidData
from helpers.study_files import frame, make_rows

SETTINGS = {"nonzero": 3, "path": False, "scale": True}


@pytest.fixture
def files(tmp_path):
    for name, part in zip(("north", "south", "west"), np.array_split(make_rows(90), 3), strict=True):
        frame(part).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def fitted(files, *names, **given):
    settings = FitSettings(files=tuple(str(files / f"{name}.csv") for name in names), **{**SETTINGS, **given})
    return fit_files(settings)


@pytest.mark.parametrize(
    "given",
    [{}, {"search": "products"}, {"nonzero": None, "lam": 20.0}, {"nonzero": None}, {"centre": "site"}],
    ids=["whole", "products", "lam", "variance", "own means"],
)
def test_a_site_that_joins_gives_what_a_new_fit_gives(files, given):
    before, fresh = fitted(files, "north", "south", **given), fitted(files, "north", "south", "west", **given)
    model = fit_update(open_update(before, [str(files / "west.csv")], folder=files))
    assert np.abs(model.components - fresh.components).max() < 1e-8
    assert np.allclose(model.mean, fresh.mean, rtol=1e-12)
    assert len(model.facts["history"]) <= len(fresh.facts["history"])
    assert model.facts["site_names"] == ["north", "south", "west"]
    assert any("30 of 'west'" in told for told in model.facts["told"])


def test_an_update_takes_one_to_three_rounds_beyond_mean_and_spread(files):
    rng = np.random.default_rng(3)
    loadings = np.zeros((3, 120))
    loadings[0, :6], loadings[1, 6:12], loadings[2, 12:18] = 1, 0.9, 0.8
    rows = rng.standard_normal((600, 3)) * 3 @ loadings + rng.standard_normal((600, 120))
    for name, part in (("a", rows[:300]), ("b", rows[300:560]), ("c", rows[560:])):
        pd.DataFrame(part, columns=[f"g{j}" for j in range(120)]).to_csv(files / f"{name}.csv", index=False)
    given = {"components": 3, "nonzero": 6, "search": "products"}
    before, fresh = fitted(files, "a", "b", **given), fitted(files, "a", "b", "c", **given)
    model = fit_update(open_update(before, [str(files / "c.csv")], folder=files))
    assert len(model.facts["history"]) - 2 <= 3 < len(fresh.facts["history"]) - 2
    assert np.array_equal(model.components != 0, fresh.components != 0)
    assert model.facts["objective"] <= fresh.facts["objective"] * (1 - 1e-4)  # it is negative


def test_a_site_adds_rows_by_a_file_that_grew_or_by_a_file_of_its_own(files):
    before = fitted(files, "north", "south")
    grown = pd.concat([pd.read_csv(files / f"{name}.csv") for name in ("south", "west")])
    (files / "later").mkdir()
    grown.to_csv(files / "later" / "south.csv", index=False)
    one = open_update(before, [str(files / "later" / "south.csv")], folder=files)
    two = open_update(before, [str(files / "west.csv")], folder=files, site="south")
    assert [update.inputs.profiles["south"].n_rows for update in (one, two)] == [60, 60]
    assert (one.added, two.added) == ({}, {"south": 30})  # what a file that grew adds is only known in all
    assert "from 60 rows to 90" in one.told()[0]
    models = [fit_update(update) for update in (one, two)]
    assert np.abs(models[0].components - models[1].components).max() < 1e-8
    assert any("whoever has both models" in told for told in two.told())


def test_few_added_rows_are_refused(files):
    before = fitted(files, "north", "south")
    pd.read_csv(files / "west.csv").head(4).to_csv(files / "few.csv", index=False)
    with pytest.raises(ValueError, match="Site 'south' adds fewer rows than the 5 of --min-rows"):
        open_update(before, [str(files / "few.csv")], folder=files, site="south")
    with pytest.raises(ValueError, match="adds fewer rows than the 31"):
        open_update(before, [str(files / "west.csv")], folder=files, min_rows=31)
    assert open_update(before, [str(files / "few.csv")], folder=files, site="south", min_rows=4).added == {"south": 4}
    grown = pd.concat([pd.read_csv(files / "south.csv"), pd.read_csv(files / "few.csv").head(2)])
    grown.to_csv(files / "south.csv", index=False)  # as if the site itself had added two rows
    with pytest.raises(ValueError, match="2 rows more or fewer"):
        open_update(before, [str(files / "north.csv"), str(files / "south.csv")], folder=files)


def test_what_cannot_be_updated_is_said(files):
    before = fitted(files, "north", "south")
    with pytest.raises(InvalidData, match=r"A model holds no rows, and its own files are read again\. 'north\.csv'"):
        open_update(before, [str(files / "west.csv")], folder=files / "elsewhere")
    pd.read_csv(files / "west.csv").rename(columns={"f1": "other"}).to_csv(files / "other.csv", index=False)
    with pytest.raises(SchemaMismatch, match="other"):
        open_update(before, [str(files / "other.csv")], folder=files)
    common = fitted(files, "north", "south", common=True)
    with pytest.raises(InvalidData, match="the model has 'f1', and the files have not"):
        open_update(common, [str(files / "other.csv")], folder=files)
    with pytest.raises(ValueError, match="not fitted to files of rows"):
        settings_of(SparsePCAModel(**{**vars(before), "facts": {}}))
    with pytest.raises(ValueError, match="study run --update"):
        settings_of(SparsePCAModel(**{**vars(before), "facts": {"institutions": {"agreement": "a"}}}))


def test_rows_of_named_sites_are_put_together(files):
    table = pd.concat([pd.read_csv(files / f"{name}.csv").assign(hospital=name) for name in ("north", "south")])
    table.to_csv(files / "all.csv", index=False)
    pd.read_csv(files / "west.csv").assign(hospital="south").to_csv(files / "more.csv", index=False)
    before = fitted(files, "all", site_column="hospital")
    update = open_update(before, [str(files / "more.csv")], folder=files)
    assert update.added == {"south": 30}
    fresh = fitted(files, "north", "south", "west")
    assert np.abs(fit_update(update).components - fresh.components).max() < 1e-8
    with pytest.raises(InvalidData, match="Leave out --site"):
        open_update(before, [str(files / "more.csv")], folder=files, site="south")


def test_the_papers_methods_begin_at_the_old_loadings(files):
    given = {"solver": "faspca", "nonzero": None, "lam": 20.0}
    before, fresh = fitted(files, "north", "south", **given), fitted(files, "north", "south", "west", **given)
    model = fit_update(open_update(before, [str(files / "west.csv")], folder=files))
    assert model.facts["objective"] <= fresh.facts["objective"] * (1 - 1e-6) + 1e-6
    assert len(model.facts["history"]) <= len(fresh.facts["history"])


def test_rows_are_added_to_a_site_that_was_too_small_so_far_and_to_no_other(files):
    for name, rows in (("tiny", slice(0, 3)), ("more", slice(3, 30))):
        pd.read_csv(files / "west.csv")[rows].to_csv(files / f"{name}.csv", index=False)
    before = fitted(files, "north", "south", "tiny", leave_out_small=True)
    assert "tiny" not in before.facts["site_names"]
    found = open_update(before, [str(files / "more.csv")], folder=files, site="tiny")
    assert found.inputs.profiles["tiny"].n_rows == 30
    with pytest.raises(InvalidData, match="no site 'more'; it has 'north', 'south', 'tiny'"):
        open_update(before, [str(files / "more.csv")], folder=files, site="more")
