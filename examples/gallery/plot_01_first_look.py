"""
A first look: three components of thirty features
=================================================

Five hospitals hold the rows of the Wisconsin breast cancer data. Each component may use six features.
"""

from sklearn.datasets import load_breast_cancer

from fedspca import ExactSPCA, SparsePCAModel

data = load_breast_cancer(as_frame=True).data
hospitals = [f"hospital {row % 5}" for row in range(len(data))]
fitted = ExactSPCA(n_components=3, n_nonzero=6, scale=True).fit(data, sites=hospitals)
model = SparsePCAModel.from_estimator(fitted)
print(model)

# %%
# The weights of each component. Weights that are not drawn are exactly zero.
chart = model.plot_loadings()
