import json

import pandas as pd

from helpers.commands import fedspca
from helpers.small_study import FIT


def test_from_files_to_report(study):
    ran = fedspca(*FIT, "-o", "model")
    assert ran.code == 0
    assert "Component 1" in ran.out
    assert "fedspca report model" in ran.out
    assert not (study / "model.checkpoint").exists()
    shown = json.loads(fedspca("show", "model", "--json", "--csv", "loadings.csv").out)
    assert [len(component) for component in shown["components"]] == [3, 3]
    assert pd.read_csv(study / "loadings.csv").shape == (8, 3)
    assert "is in model.html" in fedspca("report", "model", "--rows", "north.csv").out
    assert "--force" in fedspca("report", "model").err
    assert fedspca("report", "model", "--force").code == 0
