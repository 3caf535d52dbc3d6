"""Sparse components of one table, as if five hospitals held its rows."""

from sklearn.datasets import load_breast_cancer

from fedspca import ExactSPCA

data = load_breast_cancer(as_frame=True).data
hospital = [f"hospital {row % 5}" for row in range(len(data))]  # who owns each row

model = ExactSPCA(n_components=2, n_nonzero=6, scale=True).fit(data, sites=hospital)
for number, (weights, share) in enumerate(zip(model.components_, model.explained_variance_ratio_, strict=True), 1):
    named = {name: round(float(w), 2) for name, w in zip(data.columns, weights, strict=True) if w != 0}
    print(f"Component {number} adds {share:.0%} of the variance: {named}")
print(f"{model.n_sites_} sites were asked {model.n_rounds_} times; stopped because {model.stop_reason_.value}.")
