import altair as alt
import pandas as pd
import pytest

from fedspca import ExactSPCA, SparsePCAModel
from fedspca.plots import save_chart
from fedspca.plots.theme import PAGE, data, inline_svg, specification
from fedspca.plots.variance import plot_scree
from helpers.study_files import make_rows


@pytest.fixture(scope="module")
def model():
    return SparsePCAModel.from_estimator(ExactSPCA(2, n_nonzero=3, proof_seconds=0.0).fit(make_rows()))


@pytest.mark.parametrize(("kind", "begins"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("json", b"{")])
def test_charts_are_written_for_papers(model, tmp_path, kind, begins):
    save_chart(model.plot_scree(), tmp_path / f"a.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes().startswith(begins)


def test_another_ending_is_refused(model, tmp_path):
    with pytest.raises(ValueError, match=r"\.svg, \.png, \.pdf"):
        save_chart(model.plot_scree(), tmp_path / "a.gif")


def test_within_a_page_colours_are_the_pages_and_nothing_is_styled(model):
    drawn = inline_svg(plot_scree(model, palette=PAGE), 'a "label" <b>')
    assert 'aria-label="a &quot;label&quot; &lt;b&gt;"' in drawn
    assert "var(--plus)" in drawn
    assert "style=" not in drawn
    assert "#1f63b5" not in drawn


def test_characters_that_the_converter_cannot_take_are_replaced():
    names = ["\x1b[31mred", "\x00\ud800", "naïve β\t≤ 3", "😀"]
    part = specification(alt.Chart(data([{"name": name} for name in names])).mark_bar(tooltip=names[0]))
    assert [row["name"] for row in part["data"]["values"]] == ["�[31mred", "��", names[2], "�"]
    assert part["mark"]["tooltip"] == "�[31mred"


def test_names_of_emoji_and_escapes_that_are_cut_short_are_drawn(tmp_path):
    names = ["😀" * 40, "\x1b[31m" + "😀" * 39, *"cdefgh"]
    fitted = ExactSPCA(1, n_nonzero=8, proof_seconds=0.0).fit(pd.DataFrame(make_rows(), columns=names))
    save_chart(SparsePCAModel.from_estimator(fitted).plot_loadings(), tmp_path / "a.svg")
    assert "��" in (tmp_path / "a.svg").read_text(encoding="utf-8")
