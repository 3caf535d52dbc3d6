import numpy as np
import pytest

from fedspca import ExactSPCA, LocalFederation, Site, SparsePCAModel
from fedspca.dp.accounting import Budget
from fedspca.dp.ledger import Ledger
from fedspca.federation.private import PrivateFederation
from fedspca.federation.release_plan import Privacy
from fedspca.fit import FitSettings, fit_files
from fedspca.fit.facts import judge
from fedspca.report.record import data_notes
from fedspca.report.sections import sites
from fedspca.solvers.rounds import Rounds
from helpers.study_files import NAMES, frame, make_rows, write


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
    np.testing.assert_allclose(model.facts["dense_variance_ratio"][:2], singular[:2] / total, rtol=1e-6)
    np.testing.assert_allclose(model.covariance, scores.T @ scores / 89, rtol=1e-9)
    assert model.captured_ratio == pytest.approx(1 - errors.sum() / total)
    assert model.facts["row_errors"]["mean"] == pytest.approx(errors.mean())
    assert model.facts["row_errors"]["variance"] == pytest.approx(errors.var())
    for site, mine in zip(model.facts["sites"], (slice(0, 50), slice(50, 90)), strict=True):
        share = 1 - errors[mine].sum() / np.sum(standardised[mine] ** 2)
        assert site["explained"] == pytest.approx(share)
    assert [point["chosen"] for point in model.facts["path"]["points"]].count(True) == 1


@pytest.mark.parametrize("folds", [None, 4])
def test_what_follows_from_the_covariance_is_not_asked_for(folds):
    rows = make_rows()
    federation = LocalFederation([Site("a", rows[:50]), Site("b", rows[50:])])
    fitted = ExactSPCA(2, n_nonzero=3, scale=True, folds=folds)
    gram = fitted._fit(federation)
    known, asked = Rounds(federation), Rounds(federation)
    derived, summed = judge(known, (), fitted, gram=gram), judge(asked, (), fitted)
    assert [one.query for one in known.history] == ["row_errors"]
    assert [one.query for one in asked.history] == ["gram_product", "row_errors"]
    np.testing.assert_allclose(derived.covariance, summed.covariance, rtol=1e-9)
    found = summed.facts["dense_variance_ratio"]
    np.testing.assert_allclose(derived.facts["dense_variance_ratio"][: len(found)], found, rtol=1e-6, atol=1e-3)
    correlations = (derived.facts["feature_correlations"], summed.facts["feature_correlations"])
    np.testing.assert_allclose(*correlations, rtol=1e-6, atol=1e-3)
    assert derived.facts["row_errors"] == summed.facts["row_errors"]


@pytest.mark.parametrize("missing", ["mean", "em"])
def test_shares_of_missing_values_are_told_by_feature_and_by_site(tmp_path, missing):
    a, b = make_rows(40, 1), make_rows(40, 2)
    b[:8, 3] = np.nan
    write(tmp_path / "a.csv", a)
    write(tmp_path / "b.csv", b)
    files = (f"{tmp_path}/a.csv", f"{tmp_path}/b.csv")
    settings = FitSettings(files=files, nonzero=3, path=False, show_sites=True, missing=missing)
    model = fit_files(settings)
    assert np.isclose(model.missing_share[3], 0.1)
    assert [site["missing"] for site in model.facts["sites"]] == [0.0, round(8 / b.size, 4)]
    told = str(data_notes(model))
    assert "10.0%" in told
    assert ("EM for a Gaussian" in told) == (missing == "em")
    assert "2.5%" in str(sites(model))
    scores = model.transform(b)
    assert np.isfinite(scores).all()


def test_a_sites_own_figures_are_of_transformed_rows(tmp_path):
    write(tmp_path / "a.csv", np.exp(make_rows(40, 1)))
    write(tmp_path / "b.csv", np.exp(make_rows(40, 2)))
    files = (f"{tmp_path}/a.csv", f"{tmp_path}/b.csv")
    model = fit_files(FitSettings(files=files, nonzero=3, path=False, show_sites=True, transform=("normal",)))
    shares = [site["explained"] for site in model.facts["sites"]]
    assert abs(np.mean(shares) - model.captured_ratio) < 0.05


def test_how_much_of_a_covariate_lay_between_sites_is_told(tmp_path):
    rng = np.random.default_rng(0)
    table = frame(make_rows(90))
    table["age"] = rng.normal(50, 9, 90) + np.repeat([0, 10, 25], 30)
    table["sex"] = rng.choice(["F", "M", "X"], 90)
    for name in NAMES:
        table[name] += 0.1 * table["age"] * rng.random() + 2.0 * (table["sex"] == "M") * rng.random()
    parts = dict(zip("abc", (table[:30], table[30:60], table[60:]), strict=True))
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    files = tuple(f"{tmp_path}/{name}.csv" for name in parts)
    model = fit_files(FitSettings(files=files, nonzero=3, path=False, adjust=("age", "sex")))
    lines = np.column_stack([table["age"], table["sex"] == "M", table["sex"] == "X"]) - model.covariate_mean
    for term, at in {"age": [0], "sex": [1, 2]}.items():
        explained = lines[:, at] @ model.coefficients[at] / model.scale
        means = np.repeat([part.mean(axis=0) for part in np.split(explained, 3)], 30, axis=0)
        assert np.isclose(model.facts["covariate_between"][term], np.sum(means**2) / np.sum(explained**2), rtol=1e-9)
    assert model.facts["covariate_between"]["age"] > 0.3
    assert "of what it explains lay between sites), sex" in model.adjusted()[0]
    own = fit_files(FitSettings(files=files, nonzero=3, path=False, adjust=("age", "sex"), centre="site"))
    assert max(own.facts["covariate_between"].values()) < 1e-20


@pytest.mark.parametrize("search", ["auto", "products"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("missing", [False, True])
def test_patterns_and_uniqueness_are_those_of_a_regression_on_the_scores(search, scale, missing):
    rows = make_rows()
    if missing:
        rows[5:9, 2] = np.nan
    federation = LocalFederation(
        [Site(name, part, allow_missing=missing) for name, part in (("a", rows[:50]), ("b", rows[50:]))]
    )
    fitted = ExactSPCA(2, n_nonzero=3, scale=scale, search=search, max_missing=0.1)
    judged = judge(federation, (), fitted, gram=fitted._fit(federation))
    a = SparsePCAModel.from_estimator(fitted, **judged.to_model).standardised(rows)
    patterns = np.linalg.lstsq(a @ fitted.components_.T, a)[0]
    left = np.sum((a - a @ fitted.components_.T @ patterns) ** 2, axis=0) / (len(a) - 1)
    np.testing.assert_allclose(judged.patterns, patterns, atol=1e-8)
    least = 0.01 * np.sum(a**2, axis=0) / (len(a) - 1)
    np.testing.assert_allclose(judged.uniqueness, np.maximum(left, least), rtol=1e-8)


def test_adjusted_and_weighted_rows_have_patterns_too(tmp_path):
    rng = np.random.default_rng(0)
    table = frame(make_rows(90))
    table["age"], table["w"] = rng.normal(50, 9, 90), rng.integers(1, 4, 90)
    for name in NAMES:
        table[name] += 0.1 * table["age"] * rng.random()
    table[:40].to_csv(tmp_path / "a.csv", index=False)
    table[40:].to_csv(tmp_path / "b.csv", index=False)
    files = (f"{tmp_path}/a.csv", f"{tmp_path}/b.csv")
    model = fit_files(FitSettings(files=files, nonzero=3, path=False, adjust=("age",), weight="w"))
    age, weight = table[["age"]].to_numpy(), table["w"].to_numpy()[:, None]
    a = model.standardised(table[list(NAMES)], covariates=age) * np.sqrt(weight)
    patterns = np.linalg.lstsq(a @ model.components.T, a)[0]
    np.testing.assert_allclose(model.patterns, patterns, atol=1e-8)
    score = model.score_samples(table[list(NAMES)], covariates=age)
    assert score.shape == (90,)
    with pytest.raises(ValueError, match="new rows need these covariates"):
        model.score_samples(table[list(NAMES)])


@pytest.mark.parametrize("mechanism", ["gram", "product"])
def test_a_private_study_has_patterns_of_what_it_released(mechanism):
    rows = make_rows(4000)
    sites = [Site("a", rows[:2000]), Site("b", rows[2000:])]
    for site in sites:
        site.ledger = Ledger(Budget(20.0, 1e-6))
    about = {"centre": rows.mean(axis=0).tolist(), "scale": rows.std(axis=0).tolist()}
    noised = PrivateFederation(LocalFederation(sites), Privacy(20.0, 1e-6, mechanism=mechanism, **about))
    fitted = ExactSPCA(2, n_nonzero=3, scale=True)
    judged = judge(noised, (), fitted, gram=fitted._fit(noised))
    a = SparsePCAModel.from_estimator(fitted, **judged.to_model).standardised(rows)
    np.testing.assert_allclose(judged.patterns, np.linalg.lstsq(a @ fitted.components_.T, a)[0], atol=0.05)


def test_variances_that_do_not_add_up_or_contradict_the_sums_give_no_patterns():
    rows = make_rows()
    federation = LocalFederation([Site("a", rows[:50]), Site("b", rows[50:])])
    fitted = ExactSPCA(2, n_nonzero=3, scale=True, search="products").fit_federation(federation)
    assert judge(federation, (), fitted).patterns is not None
    right = fitted.spread_
    fitted.spread_ = 1.1 * right
    assert judge(federation, (), fitted).patterns is None
    order = np.array([6, 7, 2, 3, 4, 5, 0, 1])
    fitted.spread_ = right * np.where(
        np.isin(order, (0, 1)), 1.3, np.where(np.isin(order, (6, 7)), np.sqrt(2 - 1.69), 1)
    )
    assert judge(federation, (), fitted).uniqueness is None  # same total, and less than the regression explains


def test_after_a_fit_by_products_dense_variances_are_known_already():
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((400, 5)) @ rng.standard_normal((5, 60)) * 3 + rng.standard_normal((400, 60))
    sites = [Site("a", rows[:150]), Site("b", rows[150:])]
    fitted = ExactSPCA(2, n_nonzero=8, search="products").fit_federation(LocalFederation(sites))
    asking = Rounds(LocalFederation(sites))
    found = judge(asking, (), fitted).facts["dense_variance_ratio"]
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    np.testing.assert_allclose(found[:2], values[:2] / values.sum(), rtol=1e-6)
    assert len(found) == 10
    assert len(asking.history) <= 2  # the product with the loadings, and the errors of rows
