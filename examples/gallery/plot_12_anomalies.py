"""
Anomalies among the rows of several hospitals
=============================================

A tenth of the rows to train on are anomalies themselves, and nobody said which: malignant tumours among benign ones, at
three hospitals. The second pass leaves out rows that are too long. All that leaves a hospital is a term of a sum.
"""

import altair as alt
import numpy as np
from sklearn.datasets import load_breast_cancer

from fedspca import AnomalyDetector

table = load_breast_cancer()
benign, malignant = table.data[table.target == 1], table.data[table.target == 0]
train = np.vstack([benign[:240], malignant[:24]])
detector = AnomalyDetector(passes=2).fit(train, sites=np.arange(264) % 3)
print(f"{detector.n_kept_[0]} rows in the first pass, {detector.n_kept_[1]} in the second")

# %%
# New rows are scored where they are. The lower the score, the more anomalous the row.
new = {"benign": benign[240:], "malignant": malignant[24:]}
for name, rows in new.items():
    print(f"{name}: {np.mean(detector.predict(rows) < 0):.0%} of {len(rows)} are marked")

# %%
# The most anomalous row, and what is to blame: T² is how unusual its scores are, Q how badly they predict its features.
worst = malignant[24:][[np.argmin(detector.score_samples(malignant[24:]))]]
t2, q = detector.anomaly_parts(worst)
print(f"T² {t2[0]:.0f}, Q {q[0]:.0f}, threshold {-detector.offset_:.0f}")
for feature, share in detector.blamed(worst, top=3)[0]:
    print(f"{table.feature_names[int(feature[1:])]}: {share:.0%}")

# %%
points = [
    {"anomaly": float(np.log10(-score)), "tumour": name}
    for name, rows in new.items()
    for score in detector.score_samples(rows)
]
chart = (
    alt.Chart(alt.Data(values=points))
    .mark_bar(opacity=0.6)
    .encode(
        x=alt.X("anomaly:Q", bin=alt.Bin(maxbins=30), title="log10 of T² + Q"),
        y=alt.Y("count()", stack=None),
        color="tumour:N",
    )
)
