import numpy as np
import pytest

from fedspca import FASPCA, FSSPCA, ExactSPCA
from fedspca.fit import FitSettings, fit_files, read_fit_settings
from fedspca.fit.solvers import make_estimator
from fedspca.fit.template import template
from helpers.study_files import FORMATS, NAMES, frame, make_rows, write

SOLVERS = {
    "exact": ({"nonzero": 3}, ExactSPCA(2, n_nonzero=3, scale=True)),
    "faspca": ({"lam": 20.0}, FASPCA(2, lam=20.0, scale=True)),
    "fsspca": ({"lam": 20.0}, FSSPCA(2, lam2=20.0, scale=True)),
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


def test_what_is_told_about_a_fit_is_true(tmp_path):
    rows = make_rows()
    write(tmp_path / "a.csv", rows[:50])
    write(tmp_path / "b.csv", rows[50:])
    model = fit_files(FitSettings(files=(f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"), nonzero=3, show_sites=True))
    standardised = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    total = np.sum(standardised**2)
    errors = model.reconstruction_errors(rows)
    singular = np.linalg.svd(standardised, compute_uv=False) ** 2
    scores = standardised @ model.components.T
    np.testing.assert_allclose(model.facts["dense_variance_ratio"], singular[:2] / total, rtol=1e-6)
    np.testing.assert_allclose(model.covariance, scores.T @ scores / 89, rtol=1e-9)
    assert model.captured_ratio == pytest.approx(1 - errors.sum() / total)
    assert model.facts["row_errors"]["mean"] == pytest.approx(errors.mean())
    assert model.facts["row_errors"]["variance"] == pytest.approx(errors.var())
    for site, mine in zip(model.facts["sites"], (slice(0, 50), slice(50, 90)), strict=True):
        share = 1 - errors[mine].sum() / np.sum(standardised[mine] ** 2)
        assert site["explained"] == pytest.approx(share)
    assert [point["chosen"] for point in model.facts["path"]["points"]].count(True) == 1


def test_sites_show_nothing_alone_unless_they_allow_it(tmp_path):
    write(tmp_path / "a.csv", make_rows())
    assert fit_files(FitSettings(files=(f"{tmp_path}/a.csv",), nonzero=3, path=False)).facts["sites"] == []


def test_small_sites_refuse(tmp_path):
    write(tmp_path / "a.csv", make_rows())
    write(tmp_path / "b.csv", make_rows(4))
    with pytest.raises(ValueError, match=r"'b'.*fewer rows than the 5.*lower --min-rows"):
        fit_files(FitSettings(files=(f"{tmp_path}/a.csv", f"{tmp_path}/b.csv")))


def test_the_template_holds_every_setting_and_reads_back(tmp_path):
    study = FitSettings(
        files=("a,b.csv", 'q"\\.parquet', "ü.csv"),
        exclude=("x\ny",),
        categories={"sex of patient": ("F", "M")},
        nonzero=4,
        tol=1e-7,
    )
    (tmp_path / "fit.toml").write_text(template(study), encoding="utf-8")
    read = read_fit_settings(tmp_path / "fit.toml")
    assert read == study.with_given({"files": tuple(str(tmp_path / file) for file in study.files)})
    every = template(FitSettings())
    assert all(f"{name} = " in every for name in FitSettings.__dataclass_fields__)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[data", "not valid TOML"),
        ("[dta]\n", "no section 'dta'"),
        ("[fit]\nnonzeros = 3\n", "no setting 'nonzeros'"),
        ("[fit]\ncomponents = 'two'\n", "components must be a whole number"),
        ("[fit]\nscale = 1\n", "scale must be true or false"),
        ("[data]\nfiles = 'a.csv'\n", "files must be a list of texts"),
        ("[columns]\ncategories = { sex = 'F' }\n", r"categories.sex must be a list of texts"),
    ],
)
def test_a_wrong_study_is_explained(tmp_path, text, words):
    (tmp_path / "fit.toml").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_fit_settings(tmp_path / "fit.toml")


def test_sparsity_is_asked_for_in_one_way_that_the_solver_knows():
    for study, words in (
        (FitSettings(nonzero=3, lam=1.0), "more than one way: --nonzero, --lam"),
        (FitSettings(solver="faspca", nonzero=3), "does not take --nonzero; it takes --lam"),
        (FitSettings(solver="fsspca"), "needs --lam"),
        (FitSettings(solver="magic"), "no solver 'magic'"),
    ):
        with pytest.raises(ValueError, match=words):
            make_estimator(study, [])


def test_names_of_sites_tell_files_apart():
    from fedspca.fit.inputs import site_names

    assert site_names(["x/a.csv.gz", "b.parquet"]) == ["a", "b"]
    assert site_names(["a.csv", "a.parquet"]) == ["a.csv", "a.parquet"]
    assert site_names(["x/a.csv", "y/a.csv"]) == ["x/a.csv", "y/a.csv"]
    with pytest.raises(ValueError, match="more than once"):
        site_names(["a.csv", "a.csv"])
    assert NAMES
