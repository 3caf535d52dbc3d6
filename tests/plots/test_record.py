from dataclasses import replace

import pytest

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.plots import chart_svg, plot_convergence, plot_sent
from helpers.study_files import make_rows


@pytest.fixture(scope="module")
def model():
    return SparsePCAModel.from_estimator(ExactSPCA(1, n_nonzero=3, scale=True, proof_seconds=0.0).fit(make_rows()))


def test_sites_are_drawn_if_they_let_it_be_shown(model):
    with pytest.raises(ValueError, match="--show-sites"):
        model.plot_sites()
    shown = replace(model, facts={"sites": [{"name": "<north>", "rows": 40, "explained": 0.5}]})
    assert "50.0% of the variance of 40 rows" in chart_svg(shown.plot_sites())


def test_an_objective_of_many_digits_is_drawn_by_what_was_left(model):
    """An axis from -9861.3 to -9861.1 once read -9861 three times."""
    history = [{"number": k, "objective": -9861.2 - 0.1 * (1 - 10.0**-k), "bytes_up": 10} for k in range(1, 5)]
    drawn = chart_svg(plot_convergence(replace(model, facts={"history": history})))
    assert "9861<" not in drawn
    assert "e" in drawn  # powers of ten
    assert plot_convergence(replace(model, facts={"history": history[:1]})) is None


def test_what_was_sent_adds_up(model):
    history = [{"number": k, "bytes_up": 1500} for k in (1, 2, 3)]
    assert "after round 3: 4.5 kB" in chart_svg(plot_sent(replace(model, facts={"history": history})))
    assert plot_sent(replace(model, facts={"history": history[:1]})) is None
