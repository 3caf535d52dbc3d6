"""
How much variance sparse components capture
===========================================

The span of the first components captures a share of the variance. Dense PCA is the most that any can.
"""

from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from fedspca import ExactSPCA, SparsePCAModel

wine = load_wine(as_frame=True).data
dense = PCA().fit(StandardScaler().fit_transform(wine)).explained_variance_ratio_
fitted = ExactSPCA(4, n_nonzero=4, scale=True).fit(wine)
model = SparsePCAModel.from_estimator(fitted, dense_variance_ratio=dense.tolist())
print("captured together:", fitted.captured_variance_ratio_.round(3))

# %%
# The line of dense PCA goes on beyond the four components of the model.
chart = model.plot_scree()
