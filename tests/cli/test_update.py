import json

import numpy as np

from fedspca.model import SparsePCAModel
from helpers.commands import fedspca
from helpers.study_files import frame, make_rows

FIT = ("--nonzero", "3", "--no-path")


def test_a_model_is_updated_in_its_place_or_elsewhere(study):
    frame(make_rows(30, seed=5)).to_csv(study / "west.csv", index=False)
    assert fedspca("fit", "north.csv", "south.parquet", *FIT, "-o", "m").code == 0
    ran = fedspca("update", "m", "west.csv", "-o", "n", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["model"] == "n"
    assert "(added: 30 of 'west')" in ran.err
    assert fedspca("fit", "north.csv", "south.parquet", "west.csv", *FIT, "-o", "fresh").code == 0
    models = [SparsePCAModel.load(study / name).components for name in ("n", "fresh")]
    assert np.abs(models[0] - models[1]).max() < 1e-8
    again = fedspca("update", "m", "west.csv")
    assert (again.code, "rounds, and" in again.out) == (0, True)
    assert SparsePCAModel.load(study / "m").facts["site_names"] == ["north", "south", "west"]


def test_what_is_wrong_ends_in_one_paragraph_and_keeps_the_model(study):
    assert fedspca("fit", "north.csv", "south.parquet", *FIT, "-o", "m").code == 0
    before = (study / "m" / "manifest.json").read_bytes()
    frame(make_rows(3, seed=5)).to_csv(study / "few.csv", index=False)
    ran = fedspca("update", "m", "few.csv")
    assert (ran.code, "Site 'few' adds fewer rows than the 5 of --min-rows (3)" in ran.err) == (2, True)
    ran = fedspca("update", "m", "few.csv", "--data", "nowhere")
    assert (ran.code, "Say where with --data" in ran.err) == (2, True)
    assert (study / "m" / "manifest.json").read_bytes() == before


def test_a_site_that_the_model_does_not_have_is_refused_with_those_that_it_has(study):
    assert fedspca("fit", "north.csv", "south.parquet", *FIT, "-o", "m").code == 0
    frame(make_rows(30, seed=5)).to_csv(study / "more.csv", index=False)
    ran = fedspca("update", "m", "more.csv", "--site", "nope")
    assert ran.code == 2
    assert "The model has no site 'nope'; it has 'north', 'south'. For a new site leave out --site" in ran.err
    assert fedspca("update", "m", "more.csv", "--site", "north").code == 0
    assert SparsePCAModel.load(study / "m").n_sites == 2
