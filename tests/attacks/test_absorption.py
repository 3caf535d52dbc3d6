"""A mean far beyond the values: x − μ rounds rows one by one before they are summed, by a threshold of one's choice."""

import numpy as np
import pytest

from fedspca import FederationError, Query, Site
from fedspca.site.preparation import Preparation
from helpers.hostile import frame, masked

FAR = 2.0**62  # its neighbours are 1024 apart: with it, what is below 512 becomes 0, and what is above becomes 1024
D = 3


def tables(first, second):
    """Three sites; in one of them two persons have a rare code, +1 and −1, and these values."""
    rng = np.random.default_rng(0)
    parts = [np.hstack([rng.uniform(-100, 100, (8, 1)), np.zeros((8, 1)), rng.uniform(0, 1, (8, 1))]) for _ in range(3)]
    parts[1][2, :2], parts[1][3, :2] = (first, 1.0), (second, -1.0)
    return parts


def asked(far=FAR):
    mean = np.array([-far, 0.0, 0.0])
    return Query("gram_product", {**frame(D), "mean": mean, "directions": np.eye(D, 1)}, {"precision": "float64"})


def test_without_the_defence_a_sum_tells_which_person_is_above_a_threshold():
    """All sums over rows that have the same covariance are the same; these are not."""
    one, other = tables(900.0, 300.0), tables(500.0, -100.0)
    codes = [sum(float((part[:, 0] * part[:, 1]).sum()) for part in parts) for parts in (one, other)]
    assert codes == [600.0, 600.0]
    told = [sum(float(Site("s", part).answer(asked())["product"][1, 0]) for part in parts) for parts in (one, other)]
    assert told == [1024.0, 0.0]


@pytest.mark.parametrize("question", [asked(), Query("deviations", {"mean": asked().arrays["mean"]})])
def test_the_sum_says_nothing_and_the_attempt_counts(question):
    federation = masked([Site(f"s{k}", part) for k, part in enumerate(tables(900.0, 300.0))])
    with pytest.raises(FederationError, match="units"):
        federation.sum(question)
    doors = federation._conversation._channel.endpoints.values()
    assert [door._session.failures for door in doors] == [1, 1, 1]


def test_another_sites_mean_is_answered_also_where_all_values_are_zero():
    """A thousand times the values is a matter of units, and zeros have nothing to lose."""
    parts = tables(900.0, 300.0)
    parts[2][:, 0] = 0.0
    federation = masked([Site(f"s{k}", part) for k, part in enumerate(parts)])
    rows = np.vstack(parts)
    expected = (rows - [-1e5, 0.0, 0.0]).T @ (rows[:, 0] + 1e5)
    assert np.allclose(federation.sum(asked(1e5))["product"][:, 0], expected)


def test_coefficients_of_covariates_are_bounded_too():
    """x − μ − (c − γ)B absorbs as well as x − μ does."""
    rows, covariate = tables(900.0, 300.0)[1], np.random.default_rng(0).standard_normal((8, 1))
    design = Preparation.of({"adjust": ["age"]})
    site = Site("s", rows, covariates=covariate, preparation=design)
    about = {"mean": np.zeros(D), "covariate_mean": np.zeros(1)}
    fine, far = (Query("residuals", {**about, "coefficients": np.full((1, D), size)}) for size in (1.0, FAR))
    assert not site.outweighed_by(fine)
    assert site.outweighed_by(far)
    assert site.outweighed_by(Query("residuals", {**fine.arrays, "covariate_mean": np.full(1, FAR)}))
    other = Site("s", rows, covariates=covariate + 1, preparation=design)
    assert not other.holds(site.totals)  # another age is another row
