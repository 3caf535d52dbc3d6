"""
Rows and features in one plane
==============================

Whoever holds rows may draw them: here in colours of the kind of wine.
"""

from sklearn.datasets import load_wine

from fedspca import ExactSPCA, SparsePCAModel

wine = load_wine(as_frame=True)
model = SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=5, scale=True).fit(wine.data))
scores = model.transform(wine.data)

# %%
chart = model.plot_biplot(scores, classes=[f"cultivar {kind}" for kind in wine.target])
