import numpy as np
import pytest

from fedspca import FASPCA, FSSPCA, ExactSPCA
from fedspca.fit import FitSettings, fit_files
from helpers.study_files import FORMATS, frame, make_rows, write

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
