import numpy as np
import pytest

from fedspca import FASPCA, FSSPCA, ExactSPCA
from fedspca.fit import FitSettings, fit_covariance_file, fit_files
from helpers.study_files import FORMATS, NAMES, frame, make_rows, write

SOLVERS = {
    "exact": ({"nonzero": 3}, ExactSPCA(2, n_nonzero=3, scale=True)),
    "faspca": ({"lam": 20.0}, FASPCA(2, lam=20.0, scale=True)),
    "fsspca": ({"lam": 20.0, "lam1": 0.5}, FSSPCA(2, lam1=0.5, lam2=20.0, scale=True)),
}


def thirds(rows):
    return np.array_split(rows, 3)


@pytest.mark.parametrize("kind", FORMATS)
def test_three_files_give_the_model_of_the_stacked_array_for_every_format(kind, tmp_path):
    rows = make_rows()
    parts = zip(("north", "south", "west"), thirds(rows), strict=True)
    files = [str(write(tmp_path / f"{name}.{kind}", part)) for name, part in parts]
    model = fit_files(FitSettings(files=tuple(files), nonzero=3, path=False))
    stacked = ExactSPCA(2, n_nonzero=3, scale=True).fit(rows)
    np.testing.assert_allclose(model.components, stacked.components_, atol=1e-8)
    np.testing.assert_allclose(model.explained_variance, stacked.explained_variance_, rtol=1e-8)
    np.testing.assert_allclose(model.mean, stacked.mean_, rtol=1e-10)
    assert model.n_sites == 3


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_gives_what_its_estimator_gives(solver, tmp_path):
    rows = make_rows()
    settings, estimator = SOLVERS[solver]
    frame(rows).assign(ward=np.arange(90) % 3).to_parquet(tmp_path / "all.parquet")
    study = FitSettings(
        files=(str(tmp_path / "all.parquet"),), site_column="ward", solver=solver, path=False, **settings
    )
    model = fit_files(study)
    estimator.fit(rows, sites=np.arange(90) % 3)
    np.testing.assert_allclose(model.components, estimator.components_, atol=1e-8)


def test_sites_show_nothing_alone_unless_they_allow_it(tmp_path):
    write(tmp_path / "a.csv", make_rows())
    assert fit_files(FitSettings(files=(f"{tmp_path}/a.csv",), nonzero=3, path=False)).facts["sites"] == []


def test_small_sites_refuse(tmp_path):
    write(tmp_path / "a.csv", make_rows())
    write(tmp_path / "b.csv", make_rows(4))
    with pytest.raises(ValueError, match=r"'b'.*fewer rows than the 5.*lower --min-rows"):
        fit_files(FitSettings(files=(f"{tmp_path}/a.csv", f"{tmp_path}/b.csv")))


def adjusted_files(folder, kind="csv"):
    """Three files with a text and a number beside the features, and the whole table."""
    rng = np.random.default_rng(5)
    table = frame(make_rows(90))
    table["age"], table["sex"] = rng.normal(50, 9, 90).round(2), rng.choice(["F", "M"], 90)
    table["often"] = 1 + rng.integers(0, 3, 90)
    table["f0"] += table["age"]
    for name, part in zip(("a", "b", "c"), (table[:30], table[30:60], table[60:]), strict=True):
        if kind == "csv":
            part.to_csv(folder / f"{name}.csv", index=False)
        else:
            part.to_parquet(folder / f"{name}.parquet")
    return [str(folder / f"{name}.{kind}") for name in ("a", "b", "c")], table


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("in_memory", [None, 0])
def test_files_are_adjusted_and_weighted_by_their_own_columns(tmp_path, monkeypatch, kind, in_memory):
    if in_memory is not None:
        monkeypatch.setattr("fedspca.data.prepare.IN_MEMORY", in_memory)
    files, table = adjusted_files(tmp_path, kind)
    settings = FitSettings(
        files=tuple(files), nonzero=3, adjust=("age", "sex"), weight="often", path=False, cache=str(tmp_path / "cache")
    )
    model = fit_files(settings)
    here = ExactSPCA(2, n_nonzero=3, scale=True).fit(
        table[NAMES], covariates=table[["age", "sex"]], sample_weight=table["often"]
    )
    assert np.allclose(model.components, here.components_, atol=1e-10)
    assert model.feature_names == tuple(NAMES)
    assert set(model.facts["covariate_variance"]) == {"age", "sex", "all"}
    assert any("'sex' is taken out as a category with the levels F, M" in told for told in model.facts["told"])
    again = fit_files(settings)  # from the prepared copy, where there is one
    assert np.array_equal(again.components, model.components)


def test_what_lies_between_sites_is_told_before_and_after(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((90, 8)) + np.repeat([0.0, 2.0, 4.0], 30)[:, None]
    for name, part in zip("abc", np.split(rows, 3), strict=True):
        frame(part).to_csv(tmp_path / f"{name}.csv", index=False)
    files = tuple(str(tmp_path / f"{name}.csv") for name in "abc")
    means = np.array([part.mean(axis=0) for part in np.split(rows, 3)])
    whole = np.sum((rows - rows.mean(axis=0)) ** 2, axis=0)
    share = np.mean(30 * np.sum((means - rows.mean(axis=0)) ** 2, axis=0) / whole)
    model = fit_files(FitSettings(files=files, nonzero=3, path=False))
    assert np.isclose(model.facts["between_sites"]["before"], share, rtol=1e-10)
    assert np.isclose(model.facts["between_sites"]["after"], share, rtol=1e-10)
    model = fit_files(FitSettings(files=files, nonzero=3, path=False, centre="site", show_sites=True))
    assert np.isclose(model.facts["between_sites"]["before"], share, rtol=1e-10)
    assert model.facts["between_sites"]["after"] < 1e-20
    assert len(model.facts["sites"]) == 3
    assert "between the sites' means before, and 0.0% after" in model.adjusted()[-1]


def test_a_covariance_is_not_adjusted(tmp_path):
    with pytest.raises(ValueError, match="--adjust needs rows"):
        fit_covariance_file(FitSettings(covariance=str(tmp_path / "S.csv"), adjust=("age",)))
