"""
Components that say the same
============================

Loadings are orthogonal, and scores may correlate all the same. With three features each, two components of these data
are the size of a tumour, measured twice. The model says so, and what to do.
"""

from sklearn.datasets import load_breast_cancer

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.plots import plot_correlation

data = load_breast_cancer(as_frame=True).data
few = SparsePCAModel.from_estimator(ExactSPCA(3, n_nonzero=3, scale=True).fit(data))
more = SparsePCAModel.from_estimator(ExactSPCA(3, n_nonzero=8, scale=True).fit(data))
for caution in few.cautions():
    print(caution)

# %%
# Three features each: components 1 and 2 overlap.
chart = plot_correlation(few)

# %%
# Eight features each: no pair is above 0.8.
chart = plot_correlation(more)
