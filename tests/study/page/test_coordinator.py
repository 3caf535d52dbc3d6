"""What the coordinator sees on the page."""

from dataclasses import replace

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from fedspca.model import SparsePCAModel
from fedspca.study.page.coordinator import CoordinatorPage
from fedspca.study.run import run_study
from helpers.studies import approve


def test_from_who_is_here_to_the_report(between):
    folder, sites, channel = between
    page = CoordinatorPage(folder)
    assert page.parts()["sites"].count("not asked yet") == 3
    assert "does not run" in page.parts()["standing"]
    run_study(folder, channel, "status")
    assert page.parts()["sites"].count("not approved") == 3
    with pytest.raises(KeyError):
        page.document("report")
    approve(sites)
    run_study(folder, channel, "run")
    parts = page.parts()
    assert "The run has ended" in parts["progress"]
    assert "Open the report" in parts["result"]
    assert "question 1 of about" in parts["happened"]
    assert folder.agreement().hash in page.document("report")
    assert "unit may be wrong" not in parts["result"]
    model = SparsePCAModel.load(folder.model)
    replace(model, facts={**model.facts, "odd_units": {"f3": 1}}).save(folder.model, overwrite=True)
    assert "unit may be wrong" in page.parts()["result"]
    with pytest.raises(ValueError, match="not started"):
        page.act("run", {})
    with pytest.raises(ValueError, match="no action"):
        page.act("delete", {})
