"""From files to a report, in Python: what `fedspca fit` and `fedspca report` do. Needs fedspca[cli]."""

import tempfile
from pathlib import Path

from sklearn.datasets import load_wine

from fedspca.fit import FitSettings, fit_files
from fedspca.report import write_report

home = Path(tempfile.mkdtemp())
table = load_wine(as_frame=True).data
table[:90].to_csv(home / "north.csv", index=False)
table[90:].to_parquet(home / "south.parquet")

settings = FitSettings(files=(str(home / "north.csv"), str(home / "south.parquet")), components=2, nonzero=4)
model = fit_files(settings)
model.save(home / "model")
write_report(model, home / "model.html")
print(f"{model.n_sites} files, {model.n_samples} rows: the components capture {model.captured_ratio:.0%}.")
print(f"The report has {(home / 'model.html').stat().st_size / 1e3:.0f} kB and needs no network.")
