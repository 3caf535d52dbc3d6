"""The best value known of each case of the modes, kept in `best_known.json`: `python -m benchmarks best_known`.

A value is that of the other search (`other_search.py`), where there are few features and at most five components, or of
a fit of today. One that was found earlier stays if it is better.
"""

import json

import numpy as np

from benchmarks.modes import BEST, Case, best_known, cases, fit, value
from benchmarks.other_search import best_penalised, best_several, best_single

SEARCHED = 64  # features
STARTS = 500


def main() -> None:
    """Search every case, print what is new, and keep what is better."""
    known = best_known()
    for case in cases():
        found = _found(case)
        before = known.get(case.name)
        if before is None or found > before + 1e-9 * abs(before):
            print(f"{case.name}: {found:.6f}, before {before}", flush=True)
            known[case.name] = found
            BEST.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _found(case: Case) -> float:
    x = case.make()
    ours = value(case.mode, x, fit(case.mode, case.r, case.k, x, case.lam))
    if x.shape[1] > SEARCHED or case.r > 5 or case.mode == "variance_kept":
        return ours
    s = np.cov(x.T, bias=True)
    if case.mode == "lam":
        return max(ours, -best_penalised(s, case.r, 0.1, starts=STARTS))
    if case.r == 1:
        return max(ours, best_single(s, case.k))
    return max(ours, best_several(s, case.r, case.k, orthogonal=case.mode == "n_nonzero", starts=STARTS))
