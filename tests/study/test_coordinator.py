import numpy as np
import pandas as pd
import pytest

from fedspca import SchemaMismatch
from fedspca.federation import FederationError
from fedspca.study.coordinator import StudyFolder
from fedspca.study.run import run_study
from helpers.studies import NAMES, SITES, approve, join, study


def test_changed_terms_ask_for_approval_again(between):
    folder, sites, channel = between
    run_study(folder, channel, "status")
    approve(sites)
    settings = folder.path / "study.toml"
    settings.write_text(settings.read_text().replace("nonzero = 3", "nonzero = 4"))
    with pytest.raises(FederationError, match="not approved"):
        run_study(folder, channel, "run")


def test_a_schema_that_differs_is_named(files):
    pd.DataFrame(np.zeros((20, 5)), columns=NAMES[:5]).to_csv(files / "north.csv", index=False)
    folder = StudyFolder.create(files / "trial", study())
    for name in SITES:
        join(folder, files, name)
    with pytest.raises(SchemaMismatch, match="north"):
        folder.agreement()
    settings = folder.path / "study.toml"
    settings.write_text(settings.read_text().replace("common = false", "common = true"))
    assert folder.agreement().features == tuple(NAMES[:5])
