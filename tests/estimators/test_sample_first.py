import numpy as np
import pytest
import scipy.sparse as sp

from fedspca import ExactSPCA, InvalidData, LocalFederation, Site


@pytest.fixture(scope="module")
def tall():
    """Many rows with three sparse spikes, owned by three sites of unlike sizes."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((6000, 30))
    for j, size in enumerate((6.0, 4.0, 3.0)):
        rows[:, 4 * j : 4 * j + 4] += np.sqrt(size / 4) * rng.standard_normal((6000, 1))
    return rows, np.repeat(["a", "b", "c"], (3500, 2000, 500))


class Asked(LocalFederation):
    """A federation that notes what it is asked."""

    def sum(self, query):
        self.__dict__.setdefault("names", []).append(query.name)
        return super().sum(query)


@pytest.mark.parametrize(
    ("sparsity", "most"),
    [({"n_nonzero": 4}, 3), ({"n_nonzero": 4, "orthogonal": False}, 3), ({"lam": 600.0}, 4)],
)
def test_after_a_sample_few_passes_over_all_rows_are_left(tall, sparsity, most):
    rows, owners = tall
    sites = [Site(name, rows[owners == name]) for name in "abc"]
    whole = ExactSPCA(3, **sparsity).fit_federation(LocalFederation(sites))
    asked = Asked(sites)
    found = ExactSPCA(3, sample=20, **sparsity).fit_federation(asked)
    assert asked.names[:2] == ["moments", "deviations"]
    assert set(asked.names[2:]) == {"gram_product"}
    assert 1 <= len(asked.names[2:]) <= most
    assert np.array_equal(found.components_ != 0, whole.components_ != 0)
    assert found.objective_ - whole.objective_ < 1e-6 * abs(whole.objective_)
    assert found.n_samples_ == len(rows)
    assert [site._data.expected for site in sites] == [100, 100, 100]  # as if there had been no sample
    assert found.upper_bound_ >= -found.objective_ * (1 - 1e-9)


def test_a_sample_is_dealt_by_the_seed_at_each_site(tall):
    rows, owners = tall
    federation = LocalFederation([Site(name, rows[owners == name]) for name in "abc"])
    small = federation.sampled(20, 0)
    assert [site.n_rows for site in small.sites] == [175, 100, 25]
    again, other = federation.sampled(20, 0), federation.sampled(20, 1)
    first, second, third = (f.sites[0]._data.rows for f in (small, again, other))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)
    assert {row.tobytes() for row in first} <= {row.tobytes() for row in rows[owners == "a"]}


def test_a_sample_of_sparse_rows_and_of_rows_with_missing_values(tall):

    rows = tall[0] * (np.abs(tall[0]) > 1)
    whole = ExactSPCA(2, n_nonzero=4, search="products").fit(sp.csr_array(rows))
    found = ExactSPCA(2, n_nonzero=4, sample=10).fit(sp.csr_array(rows))
    assert found.objective_ <= whole.objective_ + 1e-6 * abs(whole.objective_)
    holes = tall[0].copy()
    holes[::7, 3] = np.nan
    assert ExactSPCA(2, n_nonzero=4, sample=10, max_missing=0.2).fit(holes).components_.any()


def test_a_sample_that_cannot_be_drawn_is_refused(tall):
    from fedspca.federation.secure import secure_federation
    from fedspca.site.errors import SiteRefusal

    rows, _ = tall
    few = [Site(name, rows[:9]) for name in "abc"]
    with pytest.raises(SiteRefusal, match="a sample of one row in 20 holds fewer rows than the 1 that its policy"):
        ExactSPCA(1, n_nonzero=3, sample=20).fit_federation(secure_federation(few, sample=20))
    with pytest.raises(ValueError, match="Leave out 'sample' or 'folds'"):
        ExactSPCA(1, n_nonzero=3, sample=20, folds=4).fit_federation(secure_federation(few, sample=20))
    with pytest.raises(InvalidData, match=r"without covariates, weights or a mean of their own\. Fit without a sample"):
        ExactSPCA(1, n_nonzero=3, sample=20).fit(rows, sample_weight=np.ones(len(rows)))
    with pytest.raises(InvalidData, match="Site 's' holds too few rows for a sample of one in 20"):
        [Site("s", rows[:3]).sampled(20, seed) for seed in range(20)]
    with pytest.raises(InvalidData, match=r"one row in 200 leaves \d of 300 rows, and \d or more are needed\. Take a"):
        ExactSPCA(5, n_nonzero=3, sample=200).fit(rows[:300])
    with pytest.raises(ValueError, match="'auto' needs the covariance of all rows"):
        ExactSPCA("auto", sample=20).fit(rows)
    with pytest.raises(ValueError, match="missing='em' needs the covariance of all rows"):
        ExactSPCA(1, n_nonzero=3, sample=20, missing="em", max_missing=0.5).fit(rows)
    with pytest.raises(ValueError, match="needs 'n_nonzero' or 'lam'"):
        ExactSPCA(1, sample=20).fit(rows)
    with pytest.raises(ValueError, match="'sample' parameter"):
        ExactSPCA(1, n_nonzero=3, sample=1).fit(rows)
