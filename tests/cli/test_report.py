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
