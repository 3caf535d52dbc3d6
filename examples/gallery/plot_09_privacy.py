"""
What privacy costs
==================

Noise hides any one row. The smaller ε, the more noise, and the less variance the loadings capture of the true rows.
"""

import altair as alt
import numpy as np

from fedspca import Budget, ExactSPCA, Ledger, LocalFederation, Privacy, PrivateFederation, Site
from fedspca.metrics import explained_variance_ratio

rng = np.random.default_rng(0)
rows = rng.standard_normal((30_000, 12)) + 2 * rng.standard_normal((30_000, 1)) * (np.arange(12) < 4)
points = []
for epsilon in (0.03, 0.1, 0.3):
    sites = [Site(f"site {k}", rows[k::3]) for k in range(3)]
    for site in sites:
        site.ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6))  # what its owner allows
    promise = Privacy(epsilon=epsilon, delta=1e-6, centre=0.0, scale=1.0, expected_rows=30_000)
    private = PrivateFederation(LocalFederation(sites), promise)
    found = ExactSPCA(1, n_nonzero=4, proof_seconds=0.0).fit_federation(private).components_
    points.append({"epsilon": epsilon, "captured": float(explained_variance_ratio(rows, found).sum())})
exact = ExactSPCA(1, n_nonzero=4, proof_seconds=0.0).fit(rows).captured_variance_ratio_[0]
print(f"without noise: {exact:.1%}", points)

# %%
base = alt.Chart(alt.Data(values=points)).encode(
    x=alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="ε"),
    y=alt.Y("captured:Q", axis=alt.Axis(format=".0%"), title="variance captured", scale=alt.Scale(domain=[0, 0.7])),
)
level = alt.Chart(alt.Data(values=[{"captured": float(exact)}])).mark_rule(strokeDash=[5, 4]).encode(y="captured:Q")
chart = base.mark_line(point=True) + level
