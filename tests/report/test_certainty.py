"""The report says how sure the loadings are, beside each weight and in sentences."""

import numpy as np
import pytest

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.estimators.certainty import plain_certainty
from fedspca.report import report_html as report


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((160, 10))
    rows[:, :4] += 2.0 * rng.standard_normal((160, 1))  # four features that say the same, of which three are named
    return ExactSPCA("auto", n_nonzero=3, scale=True, folds=4).fit(rows)


def page(fitted):
    facts = {"certainty": plain_certainty(fitted), "selection": fitted.selection_.to_plain()}
    return report(SparsePCAModel.from_estimator(fitted, **facts))


def test_the_report_says_how_sure_each_weight_is(fitted):
    html = page(fitted)
    for words in (
        "How sure it is",
        "90 % interval",
        "Selected",
        "are stable",
        "by chance alone",
        "the band that the same columns give",
        "Q²",
    ):
        assert words in html


def test_features_that_stand_in_are_named(fitted):
    assert {fitted.stand_ins_[0][1], fitted.stand_ins_[0][2]} <= {0, 1, 2, 3}
    assert "Read them as one." in page(fitted)


def test_without_folds_nothing_is_claimed():
    rows = np.random.default_rng(0).standard_normal((40, 5))
    html = report(SparsePCAModel.from_estimator(ExactSPCA(1, n_nonzero=2).fit(rows)))
    assert "How sure it is" not in html
    assert "Selected" not in html
