"""
A wrong unit becomes a component
================================

One of three hospitals reports a length in another unit, ten times larger. Its mean and its spread give it away.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.data.units import unlike_sites
from fedspca.linalg.profile import Profile

data = load_breast_cancer(as_frame=True).data
names = list(data.columns)
parts = {f"hospital {k}": data.to_numpy()[k::3].copy() for k in range(3)}
parts["hospital 1"][:, names.index("mean radius")] *= 10
for sentence in unlike_sites(names, {site: Profile.of(rows) for site, rows in parts.items()}):
    print(sentence)

# %%
# The radius no longer goes with the perimeter and the area.
wrong = ExactSPCA(2, n_nonzero=5, scale=True).fit(np.vstack(list(parts.values())))
model = SparsePCAModel.from_estimator(wrong)
chart = model.plot_loadings(1)
