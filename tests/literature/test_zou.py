import numpy as np
import pytest
from sklearn.linear_model import ElasticNet

from contracts.literature import FEW, STEPS, LiteratureContract
from fedspca.literature import ElasticNetSPCA


def polar(x):
    left, _, right = np.linalg.svd(x, full_matrices=False)
    return left @ right


class TestInfiniteRidge(LiteratureContract):
    """Section 4 of the source: the elastic net has become a soft threshold."""

    def make(self, **settings):
        return ElasticNetSPCA(2, lam1=100.0 if not settings.get("scale") else 5.0, **FEW, **settings)

    def reference(self, a):
        s = a.T @ a
        alpha = np.linalg.eigh(s)[1][:, ::-1][:, :2]
        for _ in range(STEPS):
            image = s @ alpha
            beta = np.sign(image) * np.maximum(np.abs(image) - 50.0, 0)
            alpha = polar(s @ (beta / np.linalg.norm(beta, axis=0)))
        return (beta / np.linalg.norm(beta, axis=0)).T


def exactly(a, alpha, signs, lam, lam1):
    """The elastic net with these signs: (S + λI)β = Sα − λ1/2 sign(β) on the support."""
    s, on = a.T @ a, np.flatnonzero(signs)
    beta = np.zeros(len(s))
    beta[on] = np.linalg.solve(s[np.ix_(on, on)] + lam * np.eye(len(on)), (s @ alpha)[on] - lam1 / 2 * signs[on])
    assert np.array_equal(np.sign(beta), signs)
    return beta


class TestElasticNet(LiteratureContract):
    """Algorithm 1 of the source. scikit-learn finds the signs of its elastic nets, but has only seven digits."""

    def make(self, **settings):
        return ElasticNetSPCA(
            2, lam=5.0, lam1=100.0 if not settings.get("scale") else 5.0, tol=1e-12, max_rounds=5, **settings
        )

    def reference(self, a):
        n, lam, lam1 = len(a), 5.0, 100.0
        alpha = np.linalg.eigh(a.T @ a)[1][:, ::-1][:, :2]
        net = ElasticNet(
            alpha=(lam1 / 2 + lam) / n, l1_ratio=(lam1 / 2) / (lam1 / 2 + lam), fit_intercept=False, tol=1e-14,
            max_iter=100000,
        )  # fmt: skip
        for _ in range(5):
            beta = np.column_stack(
                [exactly(a, alpha[:, j], np.sign(net.fit(a, a @ alpha[:, j]).coef_), lam, lam1) for j in range(2)]
            )
            alpha = polar(a.T @ (a @ beta))
        return (beta / np.linalg.norm(beta, axis=0)).T


def test_the_penalty_is_asked_for_in_one_way(rows):
    model = ElasticNetSPCA(2, n_nonzero=3).fit(rows)
    assert [np.count_nonzero(w) for w in model.components_] == [3, 3]
    for given in ({}, {"lam1": 1.0, "n_nonzero": 3}, {"lam": 1.0, "n_nonzero": 3}):
        with pytest.raises(ValueError, match="one of the 'lam1' and 'n_nonzero'"):
            ElasticNetSPCA(**given).fit(rows)
