from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression

from fedspca import FASPCA, FSSPCA, ExactSPCA, FederationError, InvalidData, LocalFederation, Site, secure_federation
from fedspca.estimators.rows import RowsBeside, covariate_values, levels_of
from helpers.pooled import analysed

N, D = 150, 9
METHODS = {
    "products": lambda scale: ExactSPCA(2, n_nonzero=4, scale=scale, search="products"),
    "whole": lambda scale: ExactSPCA(2, n_nonzero=4, scale=scale, proof_seconds=0),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    known = pd.DataFrame(
        {"age": rng.normal(50, 10, N), "sex": rng.choice(["F", "M"], N), "batch": rng.choice(["a", "b", "c"], N)}
    )
    x = rng.standard_normal((N, D)) @ rng.standard_normal((D, D)) + 100
    x += 0.3 * np.outer(known["age"], rng.standard_normal(D)) + 3 * np.outer(
        known["sex"] == "M", rng.standard_normal(D)
    )
    return x, known


def dummies(known):
    return pd.get_dummies(known, drop_first=True).to_numpy(np.float64)


def residuals(x, lines):
    return x - LinearRegression().fit(lines, x).predict(lines)


def by_site(x, sites, how):
    found = np.empty_like(x)
    for site in np.unique(sites):
        found[sites == site] = how(x[sites == site])
    return found


def same(one, other, tol=1e-10):
    assert np.allclose(one.components_, other.components_, atol=tol)
    assert np.allclose(one.explained_variance_, other.explained_variance_, rtol=tol)
    assert np.isclose(one.total_variance_, other.total_variance_, rtol=tol)


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_covariates_taken_out_by_sums_give_what_pooled_residuals_give(data, k, method, scale, form):
    x, known = data
    sites = np.arange(N) % k
    if form is sp.csr_array:
        x = np.where(np.random.default_rng(1).random(x.shape) < 0.4, x, 0.0)
    left = residuals(x, dummies(known))
    rows = form(x)
    adjusted = METHODS[method](scale).fit(rows, sites=sites, covariates=known)
    pooled = METHODS[method](scale).fit(left)
    same(adjusted, pooled)
    assert np.allclose(adjusted.transform(rows, covariates=known), pooled.transform(left), atol=1e-9)
    assert np.isclose(adjusted.score(rows, covariates=known), pooled.score(left), rtol=1e-10)


def test_interactions_and_a_choice_of_covariates(data):
    x, known = data
    male = (known["sex"] == "M").to_numpy(np.float64)
    lines = np.column_stack([known["age"], male, known["age"] * male])
    adjusted = METHODS["whole"](True).fit(x, covariates=known, adjust=["age", "sex", "age:sex"])
    same(adjusted, METHODS["whole"](True).fit(residuals(x, lines)))
    assert set(adjusted.covariate_variance_) == {"age", "sex", "age:sex", "all"}


def test_missing_values_stand_at_the_mean_before_anything_is_taken_out(data):
    x, known = data
    gaps = np.where(np.random.default_rng(2).random(x.shape) < 0.1, np.nan, x)
    filled = np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps)
    estimator = ExactSPCA(2, n_nonzero=4, max_missing=0.5)
    adjusted = estimator.fit(gaps, sites=np.arange(N) % 3, covariates=known)
    same(adjusted, ExactSPCA(2, n_nonzero=4).fit(residuals(filled, dummies(known))))


def test_consensus_methods_see_adjusted_rows_too(data):
    x, known = data
    sites = np.arange(N) % 3
    left = residuals(x, dummies(known))
    for method in (FASPCA(2, lam=30, scale=True), FSSPCA(2, lam2=30, scale=True, max_rounds=20, tol=1.0)):
        adjusted = method.fit(x, sites=sites, covariates=known)
        components = adjusted.components_.copy()
        assert np.allclose(components, method.fit(left, sites=sites).components_, atol=1e-8)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_weights_are_as_good_as_repeated_rows(data, k):
    x, known = data
    sites, w = np.arange(N) % k, np.random.default_rng(3).integers(0, 4, N)
    often = np.repeat(np.arange(N), w)
    for form in (np.asarray, sp.csr_array):
        weighted = METHODS["whole"](True).fit(form(x), sites=sites, covariates=known, sample_weight=w)
        repeated = METHODS["whole"](True).fit(form(x[often]), sites=sites[often], covariates=known.iloc[often])
        same(weighted, repeated)
        assert weighted.n_samples_ == w.sum()


@pytest.mark.parametrize("k", [1, 3, 10])
def test_a_sites_own_mean_and_spread_are_those_of_pandas(data, k):
    x, known = data
    sites = np.sort(np.arange(N) % k)
    centred = by_site(x, sites, lambda part: part - part.mean(axis=0))
    fitted = METHODS["products"](True).fit(x, sites=sites, centre="site")
    same(fitted, METHODS["products"](True).fit(centred))
    assert np.allclose(fitted.transform(x, sites=sites), METHODS["products"](True).fit_transform(centred), atol=1e-9)
    scaled = by_site(centred, sites, lambda part: part / part.std(axis=0, ddof=1))
    fitted = METHODS["products"](True).fit(x, sites=sites, centre="site", scale_by="site")
    same(fitted, METHODS["products"](False).fit(scaled))
    within = by_site(dummies(known), sites, lambda part: part - part.mean(axis=0))
    fitted = METHODS["whole"](True).fit(x, sites=sites, centre="site", scale_by="site", covariates=known)
    same(fitted, METHODS["whole"](False).fit(residuals(scaled, within)))
    lines = np.hstack([dummies(known), np.eye(k)[sites][:, 1:]])
    fitted = METHODS["whole"](True).fit(x, sites=sites, centre="site", covariates=known)
    same(fitted, METHODS["whole"](True).fit(residuals(x, lines)))


def test_sites_that_count_alike_have_weights_of_the_same_sum(data):
    x, _ = data
    sites = np.repeat(["a", "b", "c"], [100, 30, 20])
    w = np.repeat(N / 3 / np.array([100, 30, 20]), [100, 30, 20])
    for scale in (False, True):
        equal = METHODS["products"](scale).fit(x, sites=sites, site_weight="equal")
        same(equal, METHODS["products"](scale).fit(x, sample_weight=w))
        assert equal.n_samples_ == N
        own = METHODS["products"](scale).fit(x, sites=sites, site_weight="equal", centre="site")
        centred = by_site(x, sites, lambda part: part - part.mean(axis=0))
        same(own, METHODS["products"](scale).fit(centred, sample_weight=w))


def test_fit_transform_takes_what_fit_takes(data):
    x, known = data
    about = {"sites": np.arange(N) % 3, "covariates": known, "centre": "site"}
    fitted = METHODS["whole"](True).fit(x, **about)
    assert np.array_equal(
        METHODS["whole"](True).fit_transform(x, **about), fitted.transform(x, covariates=known, sites=about["sites"])
    )


def test_a_path_and_an_extension_are_adjusted_too(data):
    x, known = data
    path = ExactSPCA(1).path(x, n_nonzero=[2, 4], covariates=known)
    other = ExactSPCA(1).path(residuals(x, dummies(known)), n_nonzero=[2, 4])
    assert np.allclose([m.explained_variance_ratio for m in path], [m.explained_variance_ratio for m in other])
    method = FASPCA(1, lam=10.0).fit(x, covariates=known)
    assert method.extend(x, 1, covariates=known).n_components_ == 2
    with pytest.raises(ValueError, match="other covariates"):
        method.extend(x, 1)


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"adjust": ["age"]}, "no 'covariates' are given"),
        ({"covariates": np.zeros((3, 1))}, "'c0' has 3 values for 150 rows"),
        ({"covariates": np.zeros((N, 1, 1))}, "table of rows and columns"),
        ({"covariates": np.ones(N), "adjust": ["dose"]}, "no covariate 'dose'; there are 'c0'"),
        ({"site_weight": "even"}, "'site_weight' must be 'rows' or 'equal'"),
        ({"sample_weight": np.zeros(N)}, "Every weight is zero"),
        ({"sample_weight": np.full(N, 1 / N)}, "sum to more than one"),
    ],
)
def test_what_makes_no_sense_beside_rows_is_refused(data, about, told):
    with pytest.raises(InvalidData, match=told):
        ExactSPCA(2).fit(data[0], **about)


def test_new_rows_need_the_covariates_of_the_fit(data):
    x, known = data
    fitted = METHODS["whole"](True).fit(x, covariates=known)
    with pytest.raises(InvalidData, match="new rows need 'covariates' too"):
        fitted.transform(x)
    with pytest.raises(InvalidData, match="level 'd'"):
        fitted.transform(x, covariates=known.assign(batch="d"))
    with pytest.raises(InvalidData, match="took none out"):
        METHODS["whole"](True).fit(x).transform(x, covariates=known)


def test_levels_and_names_come_from_the_table():
    category = pd.Series(pd.Categorical(["b", "a"], categories=["b", "c", "a"]), name="ward")
    assert levels_of(category) == ("b", "a")
    assert levels_of(np.array(["y", "x", None], dtype=object)) == ("x", "y")
    assert list(covariate_values(category, 2)) == ["ward"]
    assert RowsBeside().site_weight == "rows"


def pooled_covariance(x, lines, sites, weights, centre, *, equal):
    """Covariance of the pooled rows: weights, own means and least squares, as numpy has them."""
    used = np.ones(len(x)) if weights is None else weights.astype(float)
    if equal:
        shares = by_site(used, sites, lambda part: part / part.sum())
        used = shares * used.sum() / shares.sum()

    def about(table):
        found = np.array(table, float)
        for site in np.unique(sites) if centre == "site" else ():
            found[sites == site] -= np.average(found[sites == site], axis=0, weights=used[sites == site])
        return found - np.average(found, axis=0, weights=used)

    a, root = about(x), np.sqrt(used)[:, None]
    if lines is not None:
        a = a - about(lines) @ np.linalg.lstsq(root * about(lines), root * a)[0]
    return (root * a).T @ (root * a) / (used.sum() - 1)


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("centre", ["joint", "site"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("adjusted", [False, True])
def test_covariates_weights_and_own_means_go_together(data, k, equal, centre, weighted, adjusted):
    (x, known), sites = data, np.arange(N) % k
    weights = np.random.default_rng(k).integers(1, 4, N) if weighted else None
    beside = {"covariates": known[["age", "sex"]] if adjusted else None, "sample_weight": weights}
    fit = METHODS["whole"](False).fit(x, sites=sites, centre=centre, site_weight="equal" if equal else "rows", **beside)
    lines = dummies(known[["age", "sex"]]) if adjusted else None
    s = pooled_covariance(x, lines, sites, weights, centre, equal=equal)
    captured = fit.components_ @ s @ fit.components_.T
    assert np.isclose(fit.total_variance_, np.trace(s), rtol=1e-8)
    assert np.allclose(fit.score_covariance_, captured, rtol=1e-8, atol=1e-8 * captured.max())


OPTIONS = {
    "numeric covariate": {"adjust": ("age",)},
    "category": {"adjust": ("sex",)},
    "interaction": {"adjust": ("age", "sex", "age:sex")},
    "centre site": {"centre": "site"},
    "scale site": {"centre": "site", "scale_by": "site"},
    "combat": {"centre": "combat"},
    "combat, protected": {"centre": "combat", "protect": ("age", "sex")},
    "weights": {"weight": True},
    "equal sites": {"site_weight": "equal"},
    "library": {"transform": ("library",)},
    "log1p": {"transform": ("log1p",)},
    "library, log1p": {"transform": ("library", "log1p")},
    "clr": {"transform": ("clr",)},
    "pearson": {"transform": ("pearson",)},
    "normal": {"transform": ("normal",)},
    "winsorise": {"transform": ("winsorise:0.05",)},
    "variable": {"variable": 5},
    "gaps at the mean": {"gaps": True},
}
BOUNDED = {"normal": 0.02, "winsorise:0.05": 1e-3}  # of quantiles from counts; all else holds to 1e-8
D = 7


def table(k, *, gaps=False):
    """Counts with effects of age, sex and site, sites of different size, and covariates that differ between them."""
    rng = np.random.default_rng(k)
    sites = np.sort(np.concatenate([np.repeat(np.arange(k), 12), rng.integers(0, k, 360 - 12 * k)]))
    known = pd.DataFrame({"age": rng.normal(50, 10, 360) + sites, "sex": rng.choice(["F", "M"], 360)})
    mean = np.exp(3 + 0.3 * rng.standard_normal((360, 2)) @ rng.standard_normal((2, D)))
    mean *= np.exp(0.02 * np.outer(known["age"] - 50, rng.standard_normal(D)))
    mean *= np.exp(
        0.2 * np.outer(known["sex"] == "M", rng.standard_normal(D)) + 0.3 * rng.standard_normal((k, D))[sites]
    )
    x = rng.poisson(mean) + 1.0
    if gaps:
        x[rng.random(x.shape) < 0.05] = np.nan
    return x, sites, known, rng.integers(1, 5, 360)


def both(k, options):
    """Return AᵀA by sums over k sites, plain and masked (from three on), and on the pooled rows."""
    x, sites, known, often = table(k, gaps="gaps" in options)
    about = {name: value for name, value in options.items() if name not in ("gaps", "weight", "adjust", "protect")}
    if chosen := {name: options[name] for name in ("adjust", "protect") if name in options}:
        about |= {"covariates": known, **chosen}
    if "weight" in options:
        about["sample_weight"] = often
    prepared = RowsBeside(sites, **about).make_sites(x, allow_missing=True)
    federations = [LocalFederation(prepared), *([secure_federation(prepared)] if k >= 3 else [])]
    fits = [ExactSPCA(1, n_nonzero=2, scale=True, max_missing=0.2, proof_seconds=0) for _ in federations]
    found = [fit._fit(federation) for fit, federation in zip(fits, federations, strict=True)]
    return found, analysed(x, sites, known, often, **options)


def bound(options):
    return max((BOUNDED.get(name, 0.0) for name in options.get("transform", ())), default=0.0)


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_is_that_of_the_pooled_rows_plain_and_masked(name, k):
    if k == 1 and OPTIONS[name].get("centre") == "combat":
        with pytest.raises(InvalidData, match=r"ComBat.* one site"):
            both(k, OPTIONS[name])
        return
    found, expected = both(k, OPTIONS[name])
    for s in found:
        assert np.abs(s - expected).max() <= max(1e-8, bound(OPTIONS[name])) * np.abs(expected).max()


WORDS = {  # what a refusal calls an option
    "numeric covariate": "covariates",
    "category": "covariates",
    "interaction": "covariates",
    "scale site": "scale_by",
    "combat": "ComBat",
    "combat, protected": "ComBat",
    "weights": "weight",
    "equal sites": "site_weight",
    "library, log1p": "library and log1p",
    "pearson": "earson",
    "gaps at the mean": "missing",
}
ONCE = ("weights", "equal sites", "gaps at the mean")  # ComBat counts every row once, with every value
REFUSED = {
    "combat": ("numeric covariate", "category", "interaction", *ONCE),
    "combat, protected": ("numeric covariate", "category", "interaction", *ONCE),
    "scale site": ("variable",),
    "clr": ("library", "log1p", "library, log1p", "pearson", "normal", "winsorise"),
    "pearson": ("library", "log1p", "library, log1p", "normal", "winsorise", *ONCE),
    "normal": ("weights", "equal sites", "winsorise"),
    "winsorise": ("weights", "equal sites"),
}


def together(first, second):
    """Return the options of both; None if both set the same one, or if normal scores leave no variance to compare."""
    one, other = OPTIONS[first], OPTIONS[second]
    listed = ("adjust", "transform")
    if any(set(one[name]) & set(other[name]) if name in listed else True for name in set(one) & set(other)):
        return None
    if {first, second} == {"normal", "variable"}:
        return None
    return {**one, **other, **{name: (*one[name], *other[name]) for name in listed if name in one and name in other}}


PAIRS = [pair for pair in combinations(OPTIONS, 2) if together(*pair) is not None]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_every_pair_of_options_is_that_of_the_pooled_rows_or_is_refused_in_words(first, second):
    options = together(first, second)
    if second in REFUSED.get(first, ()) or first in REFUSED.get(second, ()):
        with pytest.raises(InvalidData) as refused:
            both(3, options)
        for name in (first, second):
            assert WORDS.get(name, name) in str(refused.value)
        return
    found, expected = both(3, options)
    for s in found:
        assert np.abs(s - expected).max() <= max(1e-8, bound(options)) * np.abs(expected).max()


@pytest.mark.parametrize("k", [3, 10])
def test_masked_sites_fill_gaps_in_once_as_they_do_without_masks(k):
    x, sites, _, _ = table(k, gaps=True)
    prepared = RowsBeside(sites).make_sites(x, allow_missing=True)
    federations = LocalFederation(prepared), secure_federation(prepared, missing="em-once")
    plain, masked = (
        ExactSPCA(1, n_nonzero=2, max_missing=0.2, missing="em-once").fit_federation(each)._completed.covariance
        for each in federations
    )
    assert np.abs(plain - masked).max() < 1e-8 * np.abs(plain).max()
    known = RowsBeside(sites, covariates=pd.DataFrame({"age": np.arange(360.0)})).make_sites(x, allow_missing=True)
    with pytest.raises(InvalidData, match=r"EM for missing values .* covariates"):
        ExactSPCA(1, max_missing=0.2, missing="em-once").fit_federation(LocalFederation(known))


def test_sites_that_see_their_rows_in_other_ways_share_no_masks():
    x, _, _, _ = table(3)
    whole = [RowsBeside(centre=centre).make_sites(x)[0] for centre in ("joint", "site", "joint")]
    named = [Site(name, x, preparation=site.preparation) for name, site in zip("abc", whole, strict=True)]
    with pytest.raises(FederationError, match="see their rows alike"):
        secure_federation(named)
