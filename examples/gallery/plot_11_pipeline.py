"""
In a pipeline: how many features does a classifier need?
========================================================

The estimator is a transformer of scikit-learn's, so grid search chooses the number of features with it.
"""

import altair as alt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from fedspca import ExactSPCA

X, y = load_breast_cancer(return_X_y=True)
pipeline = make_pipeline(ExactSPCA(3, scale=True, proof_seconds=0.0), LogisticRegression(max_iter=500))
search = GridSearchCV(pipeline, {"exactspca__n_nonzero": [1, 2, 4, 8, 16]}, cv=3).fit(X, y)
print("best:", search.best_params_, f"{search.best_score_:.1%} right")

# %%
points = [
    {"features": k, "right": float(share)}
    for k, share in zip([1, 2, 4, 8, 16], search.cv_results_["mean_test_score"], strict=True)
]
chart = (
    alt.Chart(alt.Data(values=points))
    .mark_line(point=True)
    .encode(
        x=alt.X("features:Q", scale=alt.Scale(type="log", base=2), title="features a component"),
        y=alt.Y("right:Q", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False), title="classified rightly"),
    )
)
