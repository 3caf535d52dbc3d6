import json
from dataclasses import replace

import numpy as np
import pandas as pd

from fedspca.model import SparsePCAModel
from helpers.commands import fedspca
from helpers.small_study import FIT
from helpers.study_files import NAMES, frame, make_rows


def test_a_name_that_a_spreadsheet_would_compute_is_written_as_text(study):
    names = ["=1+1", "+x", "-y", "@z", *NAMES[4:]]
    pd.DataFrame(make_rows(60), columns=names).to_csv("odd.csv", index=False)
    fedspca("fit", "odd.csv", "--no-path", "-o", "m")
    assert fedspca("show", "m", "--csv", "l.csv").code == 0
    assert list(pd.read_csv("l.csv")["feature"]) == ["'=1+1", "'+x", "'-y", "'@z", *NAMES[4:]]
    assert SparsePCAModel.load("m").feature_names == tuple(names)
    ran = fedspca("show", "m", "--csv", "odd.csv")
    assert (ran.code, "it is there already" in ran.err) == (2, True)


def test_weights_that_are_rounding_errors_are_not_shown_as_features(study):
    fedspca(*FIT, "-o", "m")
    model = SparsePCAModel.load("m")
    dusty = np.where(model.components == 0, 1e-32, model.components)
    replace(model, components=dusty).save("dusty")
    shown = json.loads(fedspca("show", "dusty", "--json").out)
    assert [len(component) for component in shown["components"]] == model.nonzeros


def test_a_fit_with_folds_shows_how_sure_each_weight_is(study):
    assert fedspca(*FIT, "--folds", "4", "-o", "m").code == 0
    shown = fedspca("show", "m").out
    assert "selected" in shown
    assert "90 % interval" in shown
    assert "100%" in shown
    assert "are stable" in shown
    assert "by chance alone" in shown
    ran = fedspca(*FIT, "--folds", "1", "-o", "n")
    assert (ran.code, "even number of at least 4" in ran.err) == (2, True)


def test_the_sum_of_weights_is_not_called_rows(study):
    frame(make_rows(60)).assign(w=1.5).to_csv("weighted.csv", index=False)
    made = json.loads(fedspca("fit", "weighted.csv", "--weight", "w", "--no-path", "-o", "m", "--json").out)
    shown = json.loads(fedspca("show", "m", "--json").out)
    for told in (made, shown):
        assert (told["rows"], told["sum_of_weights"]) == (None, 90.0)
    fedspca(*FIT, "-o", "n")
    plain = json.loads(fedspca("show", "n", "--json").out)
    assert plain["rows"] == SparsePCAModel.load("n").n_samples
    assert "sum_of_weights" not in plain
