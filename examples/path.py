"""How sparse? A path over the number of non-zeros, and a choice."""

from sklearn.datasets import load_breast_cancer

from fedspca import ExactSPCA

data = load_breast_cancer(as_frame=True).data
path = ExactSPCA(n_components=2, scale=True).path(data, n_nonzero=[2, 4, 8, 16, 30])
for point in path:
    print(f"{point.n_nonzeros:3d} weights explain {point.explained_variance_ratio:.1%}")
print(f"Dense PCA explains {path.dense_ratio:.1%}; all of it took {path.n_rounds} rounds.")

chosen = path.choose("share", share=0.9)
print(f"The sparsest that keeps 90 % of that has {chosen.n_nonzeros} weights.")
