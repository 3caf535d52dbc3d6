import numpy as np
import pytest
from scipy.linalg import eigh

from fedspca import ExactSPCA, InvalidData, Policy, Site, SparsePCAModel
from fedspca.federation import LocalFederation
from fedspca.solvers.gaps import GapWarning

N, D = 150, 7


def data(share=0.15, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, 3)) @ rng.standard_normal((3, D)) + 0.4 * rng.standard_normal((N, D))
    x = x * (1 + np.arange(D)) + 50
    return np.where(rng.random(x.shape) < share, np.nan, x), x


def pooled(x, q=6, tol=1e-3):
    """EM for probabilistic PCA on pooled rows, one row at a time: mean and covariance (over n − 1)."""
    n, d = x.shape
    mean, scale = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    a, mu, sigma, before = (x - mean) / scale, np.zeros(d), np.eye(d), None
    while True:
        sums, gram = np.zeros(d), np.zeros((d, d))
        for row in a - mu:
            gone = np.isnan(row)
            weights = sigma[np.ix_(gone, ~gone)] @ np.linalg.inv(sigma[np.ix_(~gone, ~gone)])
            row[gone] = weights @ row[~gone]
            sums, gram = sums + row, gram + np.outer(row, row)
            gram[np.ix_(gone, gone)] += sigma[np.ix_(gone, gone)] - weights @ sigma[np.ix_(~gone, gone)]
        s = gram / n - np.outer(sums, sums) / n**2
        mu = mu + sums / n
        values, vectors = eigh(s)
        noise = values[: d - q].mean()
        sigma = (vectors[:, d - q :] * (values[d - q :] - noise)) @ vectors[:, d - q :].T + noise * np.eye(d)
        if before is not None and np.linalg.norm(s - before) <= tol * np.linalg.norm(s):
            return mean + scale * mu, s * np.outer(scale, scale) * n / (n - 1)
        before = s


def method(missing="em", **more):
    return ExactSPCA(2, n_nonzero=3, scale=True, max_missing=0.5, missing=missing, proof_seconds=0, **more)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_em_by_sums_is_em_on_the_pooled_rows(k):
    gaps, _ = data()
    found = method().fit(gaps, sites=np.arange(N) % k)
    mean, covariance = pooled(gaps)
    assert np.allclose(found._completed.covariance, covariance, rtol=1e-8, atol=1e-8 * covariance.max())
    assert np.allclose(found.mean_, mean, rtol=1e-8)
    reference = ExactSPCA(2, n_nonzero=3, scale=True, proof_seconds=0).fit_covariance(covariance, n_samples=N)
    assert np.allclose(found.components_, reference.components_, atol=1e-8)
    assert np.allclose(found.explained_variance_, reference.explained_variance_, rtol=1e-8)
    assert (found.n_sites_, found.n_samples_) == (k, N)
    assert np.allclose(found.missing_share_, np.isnan(gaps).mean(axis=0))


def test_rows_without_gaps_are_as_before():
    _, x = data()
    found = method().fit(x, sites=np.arange(N) % 3)
    usual = ExactSPCA(2, n_nonzero=3, scale=True, proof_seconds=0).fit(x)
    assert np.allclose(found.components_, usual.components_, atol=1e-10)
    assert np.isclose(found.total_variance_, usual.total_variance_)
    assert np.allclose(found.transform(x), usual.transform(x), atol=1e-8)


def test_em_is_nearer_to_the_whole_data_than_the_mean_is(tmp_path):
    gaps, x = data(0.3)
    truth = np.corrcoef(x.T)
    usual = ExactSPCA(2, n_nonzero=3, scale=True, max_missing=0.5, proof_seconds=0).fit(gaps)
    found, whole = method().fit(gaps), ExactSPCA(2, n_nonzero=3, scale=True, proof_seconds=0).fit(x)
    covariance = found._completed.covariance
    spread = np.sqrt(np.diag(covariance))
    mean = np.corrcoef(np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps).T)
    assert np.linalg.norm(covariance / np.outer(spread, spread) - truth) < 0.5 * np.linalg.norm(mean - truth)
    scores = whole.transform(x)[:, 0]
    alike = [abs(np.corrcoef(one.transform(gaps)[:, 0], scores)[0, 1]) for one in (found, usual)]
    assert alike[0] > 0.98 > alike[1]
    SparsePCAModel.from_estimator(found).save(tmp_path / "model")
    model = SparsePCAModel.load(tmp_path / "model")
    assert np.allclose(model.transform(gaps), found.transform(gaps), atol=1e-8)
    assert np.allclose(model.to_estimator().transform(gaps), found.transform(gaps), atol=1e-8)


def test_what_makes_no_sense_is_refused_in_words():
    gaps, _ = data()
    with pytest.raises(InvalidData, match="rows as they are"):
        method().fit(gaps, sites=np.arange(N) % 3, centre="site")
    with pytest.raises(InvalidData, match="there is one feature"):
        ExactSPCA(1, missing="em", max_missing=0.5).fit(gaps[:, :1])
    with pytest.raises(InvalidData, match="more missing values than the share"):
        ExactSPCA(2, missing="em", max_missing=0.01).fit(gaps)
    with pytest.raises(ValueError, match="takes no folds"):
        method(folds=4).fit(gaps)
    with pytest.raises(ValueError, match="A choice compares folds of the rows, and missing='em' makes"):
        method().choose(gaps)
    with pytest.raises(ValueError, match=r"'missing' .* needs rows"):
        method().fit_covariance(np.eye(3), n_samples=20)


def test_em_that_does_not_settle_says_so(monkeypatch):
    monkeypatch.setattr("fedspca.solvers.gaps.MOST_STEPS", 2)
    with pytest.warns(GapWarning, match="did not settle in 2 rounds"):
        method().fit(data(0.3)[0])


def pooled_once(x, q=6):
    """One step of EM on pooled rows, one row at a time, from the covariance with gaps at the mean, corrected."""
    n, d = x.shape
    mean, scale, there = np.nanmean(x, axis=0), np.nanstd(x, axis=0), ~np.isnan(x)
    a = (x - mean) / scale
    first, shares = np.nan_to_num(a).T @ np.nan_to_num(a) / n, there.mean(axis=0)
    start = np.clip(first / shares / shares[:, None], -0.999, 0.999) + 0.001 * np.eye(d)
    values, vectors = eigh(start)
    noise = max(values[: d - q].mean(), 0.01)
    sigma = (vectors[:, d - q :] * np.maximum(values[d - q :] - noise, 0)) @ vectors[:, d - q :].T + noise * np.eye(d)
    sums, gram = np.zeros(d), np.zeros((d, d))
    for row in a:
        gone = np.isnan(row)
        weights = sigma[np.ix_(gone, ~gone)] @ np.linalg.inv(sigma[np.ix_(~gone, ~gone)])
        row[gone] = weights @ row[~gone]
        sums, gram = sums + row, gram + np.outer(row, row)
        gram[np.ix_(gone, gone)] += sigma[np.ix_(gone, gone)] - weights @ sigma[np.ix_(~gone, gone)]
    s = gram / n - np.outer(sums, sums) / n**2
    return mean + scale * sums / n, s * np.outer(scale, scale) * n / (n - 1)


@pytest.mark.parametrize("k", [1, 3, 10])
def test_one_step_by_sums_is_one_step_on_the_pooled_rows(k):
    gaps, _ = data()
    found = method("em-once").fit(gaps, sites=np.arange(N) % k)
    mean, covariance = pooled_once(gaps)
    assert np.allclose(found._completed.covariance, covariance, rtol=1e-8, atol=1e-8 * covariance.max())
    assert np.allclose(found.mean_, mean, rtol=1e-8)
    assert found.n_sites_ == k


def test_one_step_is_nearly_as_near_as_em():
    gaps, x = data(0.2)
    truth = np.corrcoef(x.T)

    def off(missing):
        found = method(missing).fit(gaps)
        found = found._completed.covariance
        spread = np.sqrt(np.diag(found))
        return np.linalg.norm(found / np.outer(spread, spread) - truth)

    mean = np.corrcoef(np.where(np.isnan(gaps), np.nanmean(gaps, axis=0), gaps).T)
    assert off("em") < off("em-once") < 0.35 * np.linalg.norm(mean - truth)


def test_a_feature_is_filled_in_where_three_sites_lack_it():
    gaps, _ = data()
    gaps[:100, 3] = np.nan_to_num(gaps[:100, 3], nan=50.0)  # the third site alone lacks it
    gaps[100:120, 3] = np.nan

    def fitted(least):
        parts = np.split(gaps, [50, 100])
        sites = [Site(str(at), part, allow_missing=True, policy=least) for at, part in enumerate(parts)]
        return method("em-once").fit_federation(LocalFederation(sites))._completed.covariance

    one, many = fitted(Policy()), fitted(Policy(min_fold_rows=2))
    there = np.where(np.isnan(gaps[:, 3]), np.nanmean(gaps[:, 3]), gaps[:, 3])
    assert np.isclose(many[3, 3], there.var(ddof=1))  # at the mean
    assert one[3, 3] > 1.02 * many[3, 3]
