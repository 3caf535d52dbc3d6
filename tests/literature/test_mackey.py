import numpy as np
import pytest

from contracts.literature import FEW, STEPS, apart, centred
from contracts.solver import owners
from fedspca import LocalFederation, Site, secure_federation
from fedspca.literature import TruncatedPower
from fedspca.literature.base import Covariance
from fedspca.literature.mackey import DEFLATIONS, Deflated
from fedspca.solvers.rounds import Rounds
from fedspca.solvers.standardise import standardise


def truncated_power(s, k):
    """From the feature with the largest variance: multiply, keep the k largest weights, normalise."""
    v = np.eye(len(s))[np.argmax(np.diag(s))]
    for _ in range(STEPS):
        image = s @ v
        v = np.where(np.abs(image) >= np.sort(np.abs(image))[-k], image, 0.0)
        v = v / np.linalg.norm(v)
    return v


def deflated(s, kind, loadings):
    """Mackey's Table 1, on the matrix itself."""
    qs = []
    for loading in loadings:
        v = loading
        if kind in ("orthogonalised", "generalised"):
            for q in qs:
                v = v - q * (q @ v)
            v = v / np.linalg.norm(v)
            qs.append(v)
        p = np.eye(len(s)) - np.outer(v, v)
        if kind == "hotelling":
            s = s - (v @ s @ v) * np.outer(v, v)
        elif kind == "schur":
            s = s - np.outer(s @ v, s @ v) / (v @ s @ v)
        else:
            s = p @ s @ p
    return s


@pytest.mark.parametrize("kind", DEFLATIONS)
def test_products_and_variances_are_those_of_the_deflated_matrix(rows, kind):
    rounds = Rounds(LocalFederation([Site("a", rows[:20]), Site("b", rows[20:])]))
    left = Deflated(Covariance(rounds, standardise(rounds, scale=False)), kind)
    s = centred(rows).T @ centred(rows)
    generator = np.random.default_rng(1)
    found = [v / np.linalg.norm(v) for v in generator.standard_normal((3, 12))]
    for v in found:
        left.remove(v)
    expected = deflated(s, kind, found)
    x = generator.standard_normal((12, 2))
    assert np.abs(left.product(x) - expected @ x).max() < 1e-9 * np.abs(s).max()
    assert np.abs(left.variances - np.diag(expected)).max() < 1e-9 * np.abs(s).max()


def test_all_but_hotellings_keep_what_is_left_positive(rows):
    s = centred(rows).T @ centred(rows)
    v = np.eye(12)[0] * 0.8 + np.eye(12)[5] * 0.6
    least = {kind: np.linalg.eigvalsh(deflated(s, kind, [v]))[0] / np.trace(s) for kind in DEFLATIONS}
    assert least["hotelling"] < -1e-3
    assert min(value for kind, value in least.items() if kind != "hotelling") > -1e-12


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", DEFLATIONS)
def test_every_deflation_finds_the_pooled_loadings_whatever_the_sites_and_masked(rows, kind):
    s, expected = centred(rows).T @ centred(rows), []
    for _ in range(2):
        left = deflated(s, kind, expected)
        expected.append(truncated_power(left, 4))
    for k in (1, 3, 10):
        model = TruncatedPower(2, n_nonzero=4, deflation=kind, **FEW).fit(rows, sites=owners(60, k))
        assert apart(model.components_, np.array(expected)) < 1e-8
    sites = [Site(f"s{k}", rows[owners(60, 3) == k]) for k in range(3)]
    masked = TruncatedPower(2, n_nonzero=4, deflation=kind, **FEW).fit_federation(secure_federation(sites))
    assert apart(masked.components_, np.array(expected)) < 1e-7
    assert {tuple(np.flatnonzero(w).tolist()) for w in expected} == {(0, 1, 2, 3), (4, 5, 6, 7)}
