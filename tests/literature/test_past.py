import numpy as np

from contracts.literature import LiteratureContract, centred
from fedspca.literature import PAST
from fedspca.metrics import recovery_error


class TestPAST(LiteratureContract):
    def make(self, **settings):
        return PAST(2, **settings)

    def reference(self, a):
        s, generator = a.T @ a, np.random.default_rng(9)
        w = generator.standard_normal((12, 2))
        for _ in range(500):
            y = a @ w  # the projection that the source approximates
            w = np.linalg.lstsq(y, a, rcond=None)[0].T
        q = np.linalg.qr(w)[0]
        return (q @ np.linalg.eigh(q.T @ s @ q)[1][:, ::-1]).T


def test_a_stream_leads_to_the_same_subspace(rows):
    stream, whole = PAST(2), PAST(2).fit(centred(rows))
    for _ in range(30):
        stream.partial_fit(centred(rows))
    assert recovery_error(stream.components_, whole.components_) < 1e-3
    assert stream.transform(rows).shape == (60, 2)


def test_what_is_forgotten_fades(rows):
    turned = np.roll(centred(rows), 3, axis=1)
    fading, keeping = PAST(2, forget=0.9), PAST(2)
    for part in (centred(rows), turned):
        fading.partial_fit(part)
        keeping.partial_fit(part)
    now = PAST(2).fit(turned).components_
    assert recovery_error(fading.components_, now) < recovery_error(keeping.components_, now)
