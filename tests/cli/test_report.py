import json

import pandas as pd

from helpers.commands import fedspca
from helpers.small_study import FIT
from helpers.study_files import frame, make_rows


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


def test_a_folder_in_the_place_of_a_file_and_the_reverse_are_named_and_nothing_is_written(study):
    fedspca("fit", "north.csv", "--nonzero", "3", "--no-path", "-o", "m")
    before = sorted(study.iterdir())
    assert fedspca("report", "m", "-o", "m", "--force").err == "Error: m: it is a directory. Name a file.\n"
    assert "north.csv: it is a file. Name a folder" in fedspca("report", "m", "--figures", "north.csv").err
    assert sorted(study.iterdir()) == before


def test_a_column_for_colours_that_is_not_there_is_named_with_those_that_are(study):
    fedspca("fit", "north.csv", "--nonzero", "3", "--no-path", "-o", "m")
    ran = fedspca("report", "m", "--rows", "north.csv", "--class", "nothere")
    assert ran.code == 2
    assert "north.csv: there is no column 'nothere'. Its columns are 'f0'," in ran.err


def test_the_sum_of_weights_is_not_called_a_number_of_rows(study):
    frame(make_rows(40)).assign(w=[0.2, 0.3] * 20).to_csv("weighted.csv", index=False)
    ran = fedspca("fit", "weighted.csv", "--weight", "w", "--nonzero", "3", "--no-path", "-o", "m")
    assert "2 components of 8 features, from rows with weights that add up to 10, of 1 site." in ran.out
    fedspca("report", "m")
    report = (study / "m.html").read_text(encoding="utf-8")
    assert "Rows with weights that add up to 10 at one site were analysed together." in report
    assert "We analysed rows with weights that add up to 10 from one site" in report
    assert "<b>10</b><span>sum of weights</span>" in report
    assert "10 row" not in report
    assert "would have been" not in report  # how many rows there were is not known
    frame(make_rows(9, seed=1)).assign(w=1.0).to_csv("more.csv", index=False)
    ran = fedspca("update", "m", "more.csv", "--site", "weighted", "-o", "m2")
    assert "the model was updated to 49 rows (added: 9 of 'weighted')" in ran.err
