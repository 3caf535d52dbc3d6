import numpy as np

from contracts.literature import LiteratureContract, centred
from fedspca.literature import DSPCA
from literature.test_fantope import relaxation


class TestDSPCA(LiteratureContract):
    def make(self, **settings):
        lam = 1.0 if settings.get("scale") else 30.0
        return DSPCA(2, lam=lam, **{"tol": 1e-10, "max_rounds": 20000, **settings})

    def reference(self, a):
        s, found = a.T @ a, []
        for _ in range(2):
            found.append(np.linalg.eigh(relaxation(s, 1, 30.0))[1][:, -1])
            q = found[-1] if len(found) == 1 else found[-1] - found[0] * (found[0] @ found[-1])
            p = np.eye(len(s)) - np.outer(q, q) / (q @ q)
            s = p @ s @ p
        return np.array(found)

    def test_the_dual_value_bounds_every_sparse_loading(self, rows):
        s = centred(rows).T @ centred(rows)
        model = self.make().fit(rows)
        for k in range(1, 13):
            top = max(np.linalg.eigvalsh(s[np.ix_(i, i)])[-1] for i in (np.argsort(-np.diag(s))[:k], np.arange(k)))
            assert top <= model.upper_bound(k)
        h = model.projection_
        assert np.isclose(np.sum(s * h) - 30.0 * np.abs(h).sum(), model.dual_value_, rtol=1e-6)
