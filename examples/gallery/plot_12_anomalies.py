"""
Rows that the components do not explain
=======================================

Components of benign tumours leave malignant ones unexplained: the reconstruction error tells them apart.
"""

import altair as alt
import numpy as np
from sklearn.datasets import load_breast_cancer

from fedspca import ExactSPCA, SparsePCAModel

rows, benign = load_breast_cancer(return_X_y=True)
train = rows[benign == 1][:250]
model = SparsePCAModel.from_estimator(ExactSPCA(3, n_nonzero=10, scale=True, proof_seconds=0.0).fit(train))
errors = {
    "benign, not seen before": model.reconstruction_errors(rows[benign == 1][250:]),
    "malignant": model.reconstruction_errors(rows[benign == 0]),
}
print({name: f"median {np.median(values):.0f}" for name, values in errors.items()})

# %%
points = [{"error": float(np.log10(e)), "tumour": name} for name, values in errors.items() for e in values]
chart = (
    alt.Chart(alt.Data(values=points))
    .mark_bar(opacity=0.6)
    .encode(
        x=alt.X("error:Q", bin=alt.Bin(maxbins=30), title="log10 of the error"),
        y=alt.Y("count()", stack=None),
        color="tumour:N",
    )
)
