"""
How well the joint components fit each site
===========================================

Sites that let it be shown tell how much of their own variance the joint components capture. One whose patients differ
lies apart.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from fedspca.fit import FitSettings, fit_files

data = load_breast_cancer(as_frame=True)
order = np.argsort(data.target, kind="stable")  # the first sites see malignant tumours, the last ones benign ones
home = Path(tempfile.mkdtemp())
for number, rows in enumerate(np.array_split(order, 5), start=1):
    data.data.iloc[rows].to_csv(home / f"site {number}.csv", index=False)
files = tuple(str(path) for path in sorted(home.glob("*.csv")))
model = fit_files(FitSettings(files=files, components=2, nonzero=6, show_sites=True, path=False))

# %%
chart = model.plot_sites()
