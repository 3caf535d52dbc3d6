import numpy as np

from contracts.literature import RowsContract
from contracts.solver import owners
from fedspca import Site, secure_federation
from fedspca.literature import OversamplingPCA


class TestRows(RowsContract):
    def make(self, **settings):
        return OversamplingPCA(**settings)


def oversampled(a, x, ratio):
    """One least-squares step on the rows with copies of x among them, as the source has it."""
    u = np.linalg.eigh(a.T @ a)[1][:, -1]
    copies = np.sqrt(len(a) * ratio) * x  # so many copies weigh as this one row
    table = np.vstack([a, copies])
    y = table @ u
    turned = table.T @ y / (y @ y)
    return abs(u @ turned) / np.linalg.norm(turned) - 1


def test_scores_are_those_of_copied_rows_and_sites_do_not_matter(rows):
    a = rows - rows.mean(axis=0)
    expected = np.array([oversampled(a, x, 0.1) for x in a])
    for k in (1, 3, 10):
        assert np.abs(OversamplingPCA().fit(rows, sites=owners(60, k)).score_samples(rows) - expected).max() < 1e-8


def test_masks_change_nothing_and_an_outlier_scores_lowest(rows):
    rows[7] += 40 * np.eye(12)[11]
    parts = owners(60, 3)
    plain = OversamplingPCA(scale=True).fit(rows, sites=parts)
    sites = [Site(f"s{k}", rows[parts == k]) for k in range(3)]
    masked = OversamplingPCA(scale=True).fit_federation(secure_federation(sites))
    assert np.abs(masked.score_samples(rows) - plain.score_samples(rows)).max() < 1e-8
    assert np.argmin(plain.score_samples(rows)) == 7
