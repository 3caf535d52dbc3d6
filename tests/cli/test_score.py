import json
import re

import numpy as np
import pandas as pd
import pytest

from fedspca.model import SparsePCAModel
from helpers.commands import fedspca
from helpers.small_study import FIT
from helpers.study_files import frame, make_rows


def test_score_marks_rows_that_the_components_do_not_explain(study):
    fedspca(*FIT, "-o", "model")
    rows = make_rows(200, seed=7)
    rows[11, 7] += 3000.0
    frame(rows).to_csv(study / "new.csv", index=False)
    ran = fedspca("score", "model", "new.csv", "--anomaly", "-o", "errors.csv", "--json")
    result = json.loads(ran.out)
    assert result["largest"][0][0] == "row 12"
    assert result["blamed"][0]["f7"] > 0.9  # the feature that was changed
    assert len(result["blamed"]) == len(result["largest"]) <= 10
    assert result["anomalies"] < 20
    table = pd.read_csv(study / "errors.csv")
    model = SparsePCAModel.load("model")
    np.testing.assert_allclose(table["error"], model.reconstruction_errors(rows))
    np.testing.assert_allclose(table["t2"], model.anomaly_parts(rows).t2)
    np.testing.assert_allclose(table["t2"] + table["q"], -model.score_samples(rows))
    assert list(table["anomaly"]) == list(model.predict(rows) < 0)
    assert table["anomaly"].sum() == result["anomalies"]
    assert "have T² + Q above" in fedspca("score", "model", "new.csv", "--anomaly").out
    told = fedspca("score", "model", "new.csv", "--anomaly", "--threshold", "-1").err
    assert "--threshold is compared with errors, which are 0 or more. Got -1 instead." in told
    told = fedspca("score", "model", "new.csv", "--anomaly", "--threshold", "10").out
    assert "have an error above 10" in told
    assert re.search(r"row 12: \S+, most of it from f7 \(\d+%\), ", told)


def test_the_threshold_is_boxs(study):
    from scipy.stats import chi2

    from fedspca.anomaly import box_threshold

    assert box_threshold(8.0, 16.0, 0.99) == pytest.approx(chi2.ppf(0.99, 8))  # chi-square has mean h, variance 2h
    with pytest.raises(ValueError, match="between 0 and 1"):
        box_threshold(1, 1, 1.5)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_yes_and_no_are_written_as_such(study, kind):
    fedspca(*FIT, "-o", "m")
    assert fedspca("score", "m", "north.csv", "--anomaly", "--level", "0.5", "-o", f"errors.{kind}").code == 0
    read = pd.read_csv if kind == "csv" else pd.read_parquet
    errors = read(study / f"errors.{kind}")
    assert errors["anomaly"].dtype == bool
    assert 0 < errors["anomaly"].sum() < len(errors)
    fedspca("path", "north.csv", "south.parquet", "--grid", "2,3", "-o", f"path.{kind}")
    table = read(study / f"path.{kind}")
    assert (table["chosen"].dtype, table["chosen"].sum()) == (bool, 1)
    assert table["nonzero"].tolist() == [2, 3]
    assert table["nonzero"].dtype == np.int64


def test_options_that_would_mark_nothing_are_refused(study):
    fedspca("fit", "north.csv", "--nonzero", "3", "--no-path", "-o", "m")
    for given, told in (
        (("--threshold", "5"), "--threshold: this says which rows to mark. Add --anomaly"),
        (("--level", "2"), "--level: this says which rows to mark. Add --anomaly"),
        (("--anomaly", "--level", "0.9", "--threshold", "5"), "Give only one of them"),
        (("--anomaly", "--level", "2"), "--level must be between 0 and 1"),
    ):
        ran = fedspca("score", "m", "north.csv", *given)
        assert (ran.code, told in ran.err) == (2, True), ran.err


def changed(study, name, column, value, rows=slice(None)):
    table = frame(make_rows(20, seed=7)).astype(object)
    table.iloc[rows, table.columns.get_loc(column)] = value
    table.to_csv(study / name, index=False)


def test_a_cell_that_no_model_can_use_is_named_with_its_line(study):
    fedspca(*FIT, "-o", "m")
    changed(study, "inf.csv", "f2", "inf", slice(5, 6))
    assert "inf.csv: column 'f2' holds infinity in line 7." in fedspca("score", "m", "inf.csv").err
    changed(study, "lod.csv", "f3", "<0.5", slice(10, 11))
    ran = fedspca("score", "m", "lod.csv")
    assert (ran.code, "lod.csv: column 'f3': 19 of 20 values are numbers" in ran.err) == (2, True)
    assert "'<0.5' in line 12" in ran.err
    changed(study, "text.csv", "f3", "low")
    assert "The model needs numbers in 'f3', and there are none." in fedspca("score", "m", "text.csv").err
    header, *lines = (study / "north.csv").read_text().splitlines()
    (study / "twice.csv").write_text("\n".join([f"{header},f1", *(f"{line},1" for line in lines)]))
    ran = fedspca("score", "m", "twice.csv")
    assert (ran.code, "given more than once: 'f1'" in ran.err) == (2, True), ran.err


def test_features_and_rows_without_a_value_are_told(study):
    fedspca(*FIT, "-o", "m")
    changed(study, "no_f4.csv", "f4", "")
    assert "'f4': 20 of 20 values are missing; they count as the mean." in fedspca("score", "m", "no_f4.csv").err
    table = frame(make_rows(20, seed=7))
    table.iloc[3] = np.nan
    table.assign(id=range(20)).to_csv(study / "gap.csv", index=False)
    said = " ".join(fedspca("transform", "m", "gap.csv", "--id", "id", "-o", "s.csv").err.split())
    assert (
        "1 of 20 rows hold no value at all, first the one in line 5; every feature in them counts as the mean." in said
    )
    assert "missing" not in fedspca("score", "m", "north.csv").err
