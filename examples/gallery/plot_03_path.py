"""
How sparse? A path over the number of features
==============================================

One call solves for a whole grid. Each point costs a round or two more.
"""

import altair as alt
from sklearn.datasets import load_breast_cancer

from fedspca import ExactSPCA

data = load_breast_cancer(as_frame=True).data
path = ExactSPCA(3, scale=True).path(data, n_nonzero=[1, 2, 3, 5, 8, 12, 18, 30])
chosen = path.choose("knee")
print(f"The knee: {chosen.n_nonzeros} weights capture {chosen.explained_variance_ratio:.1%}.")

# %%
points = [
    {"weights": model.n_nonzeros, "captured": model.explained_variance_ratio, "knee": model is chosen} for model in path
]
base = alt.Chart(alt.Data(values=points)).encode(
    x=alt.X("weights:Q", scale=alt.Scale(type="log"), title="weights in all"),
    y=alt.Y("captured:Q", axis=alt.Axis(format=".0%"), title="variance captured"),
)
chart = base.mark_line(point=True) + base.transform_filter("datum.knee").mark_point(size=200, color="purple")
