"""
Sites that are nothing like each other
======================================

ExactSPCA solves the problem of the pooled rows, however they are dealt out. Ten sites that were made as unlike as
possible give the weights of one table.
"""

import altair as alt
import numpy as np
from sklearn.datasets import load_breast_cancer

from fedspca import ExactSPCA
from fedspca.experiments.partitions import by_principal_score

rows = load_breast_cancer().data
owners = by_principal_score(rows, 10)
pooled = ExactSPCA(2, n_nonzero=8, scale=True).fit(rows)
sites = ExactSPCA(2, n_nonzero=8, scale=True).fit(rows, sites=owners)
print("largest difference of a weight:", f"{np.abs(pooled.components_ - sites.components_).max():.1e}")

# %%
points = [
    {"pooled": float(a), "ten sites": float(b)}
    for a, b in zip(pooled.components_.ravel(), sites.components_.ravel(), strict=True)
]
base = alt.Chart(alt.Data(values=points)).encode(x="pooled:Q", y="ten sites:Q")
line = alt.Chart(alt.Data(values=[{"a": -0.1}, {"a": 0.5}])).mark_line(color="gray").encode(x="a:Q", y="a:Q")
chart = line + base.mark_circle(size=70, opacity=0.6)
