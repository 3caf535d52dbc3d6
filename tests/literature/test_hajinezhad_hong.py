import numpy as np
import pytest

from contracts.literature import FEW, STEPS, LiteratureContract
from fedspca.literature import NonconvexADMM
from fedspca.literature.penalties import PENALTIES


def admm(s, penalty, lam):
    rho = 2 * np.linalg.eigvalsh(s)[-1]
    z = np.linalg.eigh(s)[1][:, -1]
    y = s @ z
    for _ in range(STEPS):
        x = np.linalg.solve(rho * np.eye(len(s)) - s, rho * z - y)
        z = PENALTIES[penalty](x + y / rho, lam / rho)
        z = z / max(1, np.linalg.norm(z))
        y = y + rho * (x - z)
    return z / np.linalg.norm(z)


class TestMCP(LiteratureContract):
    penalty = "mcp"

    def make(self, **settings):
        lam = 5.0 if settings.get("scale") else 60.0
        return NonconvexADMM(2, penalty=self.penalty, lam=lam, **FEW, **settings)

    def reference(self, a):
        s, found = a.T @ a, []
        for _ in range(2):
            found.append(admm(s, self.penalty, 60.0))
            q = found[-1] if len(found) == 1 else found[-1] - found[0] * (found[0] @ found[-1])
            p = np.eye(len(s)) - np.outer(q, q) / (q @ q)
            s = p @ s @ p
        return np.array(found)

    @pytest.mark.parametrize("penalty", ["l1", "scad", "log"])
    def test_the_other_penalties_are_the_reference_too(self, rows, penalty):
        self.penalty = penalty
        self.test_it_is_the_pooled_reference_whatever_the_number_of_sites(rows)
