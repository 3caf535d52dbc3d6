import pandas as pd

from fedspca.model import SparsePCAModel
from helpers.commands import fedspca
from helpers.study_files import NAMES, make_rows


def test_a_name_that_a_spreadsheet_would_compute_is_written_as_text(study):
    names = ["=1+1", "+x", "-y", "@z", *NAMES[4:]]
    pd.DataFrame(make_rows(60), columns=names).to_csv("odd.csv", index=False)
    fedspca("fit", "odd.csv", "--no-path", "-o", "m")
    assert fedspca("show", "m", "--csv", "l.csv").code == 0
    assert list(pd.read_csv("l.csv")["feature"]) == ["'=1+1", "'+x", "'-y", "'@z", *NAMES[4:]]
    assert SparsePCAModel.load("m").feature_names == tuple(names)
    ran = fedspca("show", "m", "--csv", "odd.csv")
    assert (ran.code, "it is there already" in ran.err) == (2, True)
