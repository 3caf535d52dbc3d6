import numpy as np
import pytest

from contracts.literature import FEW, STEPS, LiteratureContract
from fedspca import StopReason
from fedspca.literature import TruncatedPower


def keep(x, k):
    kept = np.zeros_like(x)
    top = np.argsort(-np.abs(x))[:k]
    kept[top] = x[top]
    return kept / np.linalg.norm(kept)


def truncated_power(s, k):
    v = np.eye(len(s))[np.argmax(np.diag(s))]
    for _ in range(STEPS):
        v = keep(s @ v, k)
    return v


class TestTruncatedPower(LiteratureContract):
    def make(self, **settings):
        return TruncatedPower(2, n_nonzero=4, **{**FEW, **settings})

    def reference(self, a):
        s, found = a.T @ a, []
        for _ in range(2):
            found.append(truncated_power(s, 4))
            q = found[-1] if len(found) == 1 else found[-1] - found[0] * (found[0] @ found[-1])
            p = np.eye(len(s)) - np.outer(q, q)
            s = p @ s @ p
        return np.array(found)

    def test_settings_that_make_no_sense_are_named(self, rows):
        with pytest.raises(ValueError, match="n_nonzero"):
            TruncatedPower(n_nonzero=0).fit(rows)
        with pytest.raises(ValueError, match=r"at most min\(n_samples, n_features\)"):
            TruncatedPower(13).fit(rows)

    def test_iterations_that_do_not_settle_are_said(self, rows):
        assert self.make(max_rounds=1).fit(rows).stop_reason_ is StopReason.MAX_ROUNDS
