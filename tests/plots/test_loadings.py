from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.plots import chart_svg, plot_biplot, plot_correlation, plot_loadings
from fedspca.plots.loadings import _room, _spaced, short
from helpers.study_files import frame, make_rows

EVIL = '"]</text><script>alert(1)</script>'


@pytest.fixture(scope="module")
def model():
    table = frame(make_rows()).rename(columns={"f0": EVIL})
    return SparsePCAModel.from_estimator(ExactSPCA(3, n_nonzero=3, scale=True, proof_seconds=0.0).fit(table))


def test_bars_are_the_weights_the_largest_first(model):
    weights = model.components[1]
    drawn = chart_svg(plot_loadings(model, 2))
    order = [j for j in np.argsort(-np.abs(weights)) if weights[j]]
    places = [drawn.index(f"{weights[j]:+.4f}") for j in order]
    assert places == sorted(places)
    assert "Component 1" not in drawn


def test_all_components_are_drawn_and_others_refused(model):
    drawn = chart_svg(model.plot_loadings())
    assert all(f"Component {k}" in drawn for k in (1, 2, 3))
    with pytest.raises(ValueError, match="components 1 to 3"):
        plot_loadings(model, 4)
    with pytest.raises(ValueError, match="components 1 to 3"):
        plot_biplot(model, components=(1, 4))


def test_a_name_with_markup_is_text(model):
    for chart in (model.plot_loadings(), model.plot_biplot()):
        assert "<script>" not in chart_svg(chart)


def test_rows_are_drawn_only_if_they_are_given_and_coloured_by_class(model):
    scores = model.transform(make_rows())
    assert chart_svg(plot_biplot(model)).count("<path") < 60
    drawn = chart_svg(plot_biplot(model, scores, classes=["ill" if k % 2 else "well" for k in range(90)]))
    assert drawn.count("<path") > 90
    assert "well" in drawn


def test_correlations_are_written_into_their_cells(model):
    drawn = chart_svg(plot_correlation(model))
    assert f"{model.correlation[0, 1]:.2f}".replace("-", "") in drawn.replace("−", "")


def test_names_move_apart_and_stay_in_their_order():
    heights = _spaced([0.0, 0.01, 0.02, 0.9, 1.0], 0.1, -0.2, 1.0)
    assert all(b - a >= 0.1 - 1e-12 for a, b in pairwise(heights))
    assert max(heights) <= 1.0 + 1e-12
    assert np.allclose(heights[:3], [-0.09, 0.01, 0.11])  # as near to their arrows as they can be
    assert np.allclose(_spaced([0.0, 0.0], 0.1, 0.0, 1.0), [0.0, 0.1])
    assert np.allclose(_spaced([0.5] * 5, 0.1, 0.4, 0.6), np.linspace(0.4, 0.6, 5))  # without room, closer together
    assert _spaced([], 0.1, 0.0, 1.0) == []


def test_a_name_that_was_moved_has_a_line_to_its_arrow(model):
    alike = replace(model, facts={**model.facts, "feature_correlations": [[0.9] * 8, [0.3] * 8]})
    apart = np.linspace(-0.9, 0.9, 8)
    spread = replace(model, facts={**model.facts, "feature_correlations": [[0.5] * 8, list(apart)]})
    lines = [chart_svg(plot_biplot(each)).count('stroke-width="0.7"') for each in (alike, spread)]
    assert lines[0] >= 6
    assert lines[1] == 0


def test_long_names_keep_their_ends():
    assert short("a" * 20 + "z" * 20, 10) == "aaaaa…zzzz"
    assert short(" ") == "(no name)"


@pytest.mark.parametrize("weights", [[0.3, 0.2], [0.3, -0.3], [-0.3]])
def test_numbers_beside_bars_have_a_seventh_of_the_axis_on_each_side_that_has_bars(weights):
    low, high = _room([{"weight": weight} for weight in weights])
    for end, bar in ((low, min(*weights, 0.0)), (high, max(*weights, 0.0))):
        assert abs(end - bar) >= (high - low) / 7.5 or bar == end == 0
