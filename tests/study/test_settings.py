import pytest

from fedspca.fit.settings import FitSettings
from fedspca.study.simulation import make_simulation
from helpers.studies import SITES, study


def test_what_is_stated_of_features_must_be_there(files):
    data = FitSettings(files=tuple(str(files / f"{name}.csv") for name in SITES))
    (files / "ranges.csv").write_text("feature,centre,scale\nf0,0,1\n")
    with pytest.raises(ValueError, match="nothing is stated of 'f1'"):
        make_simulation(files / "trial", study(epsilon=1.0, stated=str(files / "ranges.csv")), data)
    (files / "ranges.csv").write_text("feature,mean\nf0,0\n")
    with pytest.raises(ValueError, match="columns feature, centre and scale"):
        make_simulation(files / "other", study(epsilon=1.0, stated=str(files / "ranges.csv")), data)
