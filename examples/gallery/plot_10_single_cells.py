"""
Single cells: AnnData in, obsm and varm out
===========================================

``fedspca.sc.spca`` follows scanpy's conventions. These cells are drawn: two programmes of twelve genes each, among 300.
"""

import altair as alt
import anndata
import numpy as np

from fedspca import sc

rng = np.random.default_rng(0)
kind = rng.integers(0, 3, 400)
rate = np.ones((400, 300))
rate[kind == 1, :12] *= 6
rate[kind == 2, 12:24] *= 6
adata = anndata.AnnData(np.log1p(rng.poisson(rate)).astype(np.float64))
sc.spca(adata, 2, n_nonzero=12)
print("genes of each component:", [np.flatnonzero(column).tolist() for column in adata.varm["SPCs"].T])

# %%
scores = adata.obsm["X_spca"]
cells = [{"SPC 1": float(a), "SPC 2": float(b), "kind": f"kind {k}"} for (a, b), k in zip(scores, kind, strict=True)]
chart = alt.Chart(alt.Data(values=cells)).mark_circle(size=30).encode(x="SPC 1:Q", y="SPC 2:Q", color="kind:N")
