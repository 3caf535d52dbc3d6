"""How many components stand out of chance: edges of noise, and columns permuted within each site."""

from functools import partial

import numpy as np
import pytest

from contracts.federation import make_sites
from fedspca import LocalFederation, Site
from fedspca.federation.secure import secure_federation
from fedspca.linalg.symmetric import unpack
from fedspca.site.question import Query
from fedspca.solvers.asking import frame_arrays
from fedspca.solvers.folds.rank import Null, above, hard_threshold, noise_edge, parallel_analysis, simulated_analysis
from fedspca.solvers.standardise import standardise


def noise(seed, n=100, d=60):
    return np.random.default_rng(seed).standard_normal((n, d))


def test_the_edge_is_seldom_exceeded_by_noise():
    tops = [np.linalg.eigvalsh(np.cov(noise(seed), rowvar=False))[-1] for seed in range(200)]
    assert np.mean(np.array(tops) > noise_edge(99, 60)) < 0.04
    assert np.quantile(tops, 0.9) > 0.9 * noise_edge(99, 60)  # and it is no wider than it must be


def test_the_hard_threshold_is_the_published_one():
    assert hard_threshold(100, 100) == pytest.approx(16 / 3)  # λ(1) = 4/√3
    assert hard_threshold(10**8, 10) == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("shape", [(300, 40), (80, 200)])
def test_planted_components_are_counted(shape):
    n, d = shape
    rows = noise(1, n, d)
    for j, strength in enumerate((40.0, 25.0)):
        rows[:, 10 * j : 10 * j + 10] += np.sqrt(strength / 10) * np.random.default_rng(9 + j).standard_normal((n, 1))
    values = np.linalg.eigvalsh(np.cov(rows, rowvar=False))[::-1]
    for edge in (noise_edge(n - 1, d), hard_threshold(n - 1, d)):
        assert above(values[:8], float(values.sum()), n, d, edge) == 2
        flat = np.linalg.eigvalsh(np.cov(noise(2, n, d), rowvar=False))[::-1]
        assert above(flat[:8], float(flat.sum()), n, d, edge) == 0


@pytest.mark.parametrize(("n", "d", "sigma"), [(300, 40, 0.0), (300, 40, 40.0), (30, 40, 60.0)])
def test_the_null_of_a_private_study_has_its_noise(n, d, sigma):
    """Eigenvalues of unrelated features with other noise of the same law lie where the simulated ones lie."""
    rng = np.random.default_rng(0)
    variances = np.linspace(0.5, 2.0, d)
    null = simulated_analysis(variances, n, 3, 0.5 * d * sigma**2 / (n - 1) ** 2, rng)
    tops = []
    for _ in range(40):
        rows, e = np.sqrt(variances) * rng.standard_normal((n, d)), rng.standard_normal((d, d))
        noised = np.cov(rows, rowvar=False) + sigma * (e + e.T) / 2.0 / (n - 1)  # σ² on the diagonal, half beside it
        tops.append(np.linalg.eigvalsh(noised)[-1])
    assert np.mean(tops) == pytest.approx(null.mean[0], rel=0.03)
    assert np.mean(np.array(tops) > null.high[0]) < 0.08


@pytest.mark.parametrize("make", [LocalFederation, secure_federation])
def test_permuted_columns_keep_their_variance_and_lose_their_correlation(make):
    rng = np.random.default_rng(0)
    sites = []
    for name in "abc":
        rows = rng.standard_normal((60, 5))
        rows[:, 1:3] = rows[:, :1]
        sites.append(Site(name, rows))
    federation = make(sites)
    moments = standardise(federation, scale=True)
    scalars = {"seed": 1, "first": 0, "permutations": 2, "precision": "float64"}
    packed = federation.sum(Query("permuted_gram", frame_arrays(moments.frame), scalars))["permuted"]
    first, second = (unpack(each) / 179 for each in packed)
    assert np.allclose(first.diagonal(), 1.0)
    assert abs(first[0, 1]) < 0.3
    assert not np.allclose(first, second)
    null = parallel_analysis(federation, moments.frame, moments.n_rows, 3, seed=1)
    pooled = np.cov(np.vstack([site._data.rows for site in sites]), rowvar=False)
    values, vectors = np.linalg.eigh(pooled / np.sqrt(np.outer(pooled.diagonal(), pooled.diagonal())))
    assert null.count(values[::-1][:3], vectors[:, ::-1][:, :3], np.ones(5), noise=2.0) == 1


def test_differences_between_sites_are_part_of_the_null():
    """Columns are permuted within a site, so a shift of a whole site is no component."""
    shift = np.zeros(6)
    shift[:3] = 2.0
    sites = [Site(name, noise(at, 80, 6) + at * shift) for at, name in enumerate("abc")]
    moments = standardise(LocalFederation(sites), scale=False)
    null = parallel_analysis(LocalFederation(sites), moments.frame, moments.n_rows, 2, seed=0)
    pooled = np.linalg.eigvalsh(np.cov(np.vstack([site._data.rows for site in sites]), rowvar=False))[::-1]
    assert null.mean[0] > 0.9 * pooled[0]


def test_each_eigenvalue_is_compared_with_the_largest_of_the_null():
    """Beside two components the third eigenvalue is the largest of noise: the null's third one is not its measure."""
    null = Null(np.array([2.0, 1.5, 1.2]), np.array([2.2, 1.7, 1.4]))
    count = partial(null.count, vectors=np.zeros((4, 3)), variances=np.ones(4), noise=3.0)
    assert count(np.array([5.0, 4.0, 2.0])) == 2
    assert count(np.array([5.0, 1.0, 3.0])) == 1
    assert count(np.array([5.0, 4.0, 3.0])) == 3


def test_a_component_between_sites_accounts_for_one_eigenvalue():
    null = Null(np.array([9.0, 2.0, 1.5]), np.array([9.2, 2.2, 1.7]))
    count = partial(null.count, vectors=np.zeros((4, 3)), variances=np.ones(4), noise=2.5)
    assert count(np.array([9.5, 4.0, 2.0])) == 1  # the first is the null's own
    assert count(np.array([14.0, 9.1, 2.0])) == 1
    assert count(np.array([9.1, 2.1, 2.0])) == 0


def test_the_null_shrinks_with_the_variance_that_components_leave():
    """Two features that share a component have one more direction, of noise alone: it is no component."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((600, 8))
    rows[:, :6] += 4.0 * rng.standard_normal((600, 1))
    rows[:, 6:] += 0.7 * rng.standard_normal((600, 1))
    federation = LocalFederation([Site("a", rows)])
    moments = standardise(federation, scale=True)
    null = parallel_analysis(federation, moments.frame, 600, 3, seed=0)
    correlation = np.corrcoef(rows, rowvar=False)
    values, vectors = (part[..., ::-1][..., :3] for part in np.linalg.eigh(correlation))
    assert null.count(values, vectors, np.ones(8), noise=1.5) == 2


def test_a_policy_that_forbids_the_covariance_forbids_its_permutations():
    from fedspca import Policy, SiteRefusal
    from fedspca.site import InvalidQuery

    sites = make_sites(clinic_1=Policy(max_gram_features=3))
    moments = standardise(LocalFederation(sites), scale=True)
    with pytest.raises(SiteRefusal, match="whole covariance of 6 features"):
        parallel_analysis(LocalFederation(sites), moments.frame, moments.n_rows, 2, seed=0)
    many = {"seed": 1, "first": 0, "permutations": 1000, "precision": "float64"}
    with pytest.raises(InvalidQuery, match="1000 permutations"):
        make_sites()[0].answer(Query("permuted_gram", frame_arrays(moments.frame), many))
