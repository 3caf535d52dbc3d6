"""The report as text; ``make drill`` opens it in a browser."""

import base64
import html
import io
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from fedspca import FASPCA, ExactSPCA
from fedspca.fit import FitSettings, fit_files
from fedspca.model import SparsePCAModel
from fedspca.report import report_html, write_report
from fedspca.report.methods import paragraph, references
from helpers.study_files import frame, make_rows

VOID = {"meta"}
EVIL = '</svg><script>alert("1")</script>'


class Checker(HTMLParser):
    """Every element closed in order, and nothing that would load anything."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], [], []

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        assert not {"src", "onclick", "style"} & set(given)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if not given.get("href", "data:").startswith("data:") else []
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name


def checked(page):
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    assert all(link.startswith("#") and link[1:] in checker.ids for link in checker.links)
    return page


@pytest.mark.parametrize(
    "estimator",
    [ExactSPCA(1, n_nonzero=1), ExactSPCA(3, n_nonzero=8, scale=True), FASPCA(2, lam=500.0)],
    ids=["one weight", "dense", "consensus"],
)
def test_a_bare_model_has_a_report(estimator, tmp_path):
    fitted = estimator.fit(frame(make_rows()), sites=np.arange(90) % 3)
    page = checked(report_html(SparsePCAModel.from_estimator(fitted)))
    assert "Component 1" in page
    assert "Sites whose policies keep their own figures to themselves: " in page
    write_report(SparsePCAModel.from_estimator(fitted), tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page


@pytest.fixture(scope="module")
def fitted_files(tmp_path_factory):
    home = tmp_path_factory.mktemp("report")
    rows = make_rows()
    rows[3, 2] = np.nan
    table = frame(rows).rename(columns={"f0": EVIL})
    for name, part in (("north", table[:45]), ("south", table[45:])):
        part.to_csv(home / f"{name}.csv", index=False)
    files = (f"{home}/north.csv", f"{home}/south.csv")
    return fit_files(FitSettings(files=files, nonzero=2, show_sites=True)), table


def test_the_report_has_all_that_a_reader_asks_for(fitted_files):
    model, table = fitted_files
    page = checked(report_html(model, title="Eight features"))
    told = html.unescape(re.sub(r"<[^>]*>", " ", page))
    assert "<h1>Eight features</h1>" in page
    assert "Sites that took part: north, south." in told
    assert f"{datetime.now(UTC):%B %Y}" in told
    for name in ("components", "variance", "relations", "sites", "features", "methods", "files", "settings"):
        assert f'id="{name}"' in page
    assert f"{table['f2'].std():.4g}" in told  # a feature's standard deviation
    assert f"{1 / 90:.1%}" in told  # and the share missing
    assert "We analysed 90 rows from 2 sites over 8 features" in told
    assert "Zou H, Hastie T" in told
    assert len(page) < 2e6
    assert set(re.findall(r"https?://[^\"' ]*", page)) <= {"http://www.w3.org/2000/svg"}  # a name, not an address


@pytest.mark.parametrize(
    ("settings", "said", "cited"),
    [
        ({}, "set to the joint mean", None),
        ({"missing": "em"}, "estimated by EM where values are missing", "Tipping"),
        ({"transform": ("winsorise:0.1",), "max_missing": 0.0}, "first transformed: winsorise", None),
        (
            {"centre": "combat", "max_missing": 0.0},
            "shift and spread were taken out of its rows (ComBat)",
            "Johnson WE",
        ),
    ],
)
def test_the_methods_paragraph_says_how_rows_were_prepared(tmp_path, settings, said, cited):
    rows = make_rows()
    rows[3, 2] = rows[3, 2] if "max_missing" in settings else np.nan
    for name, part in (("north", frame(rows)[:45]), ("south", frame(rows)[45:])):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    files = (f"{tmp_path}/north.csv", f"{tmp_path}/south.csv")
    model = fit_files(FitSettings(files=files, nonzero=2, **settings))
    assert said in paragraph(model)
    assert ("joint mean" in paragraph(model)) == (settings == {})
    assert cited is None or any(one.startswith(cited) for one in references(model))


def test_the_loadings_in_the_page_are_the_models(fitted_files):
    model, _ = fitted_files
    packed = re.search(r"data:text/csv;base64,([^\"]*)", report_html(model))[1]
    table = pd.read_csv(io.BytesIO(base64.b64decode(packed)), index_col=0)
    np.testing.assert_array_equal(table.to_numpy(), model.components[:, model.components.any(axis=0)].T)


def test_every_features_correlation_with_a_score_is_told(fitted_files):
    model, table = fitted_files
    scores = model.transform(table.to_numpy())
    filled = table.fillna(table.mean()).to_numpy()
    expected = np.corrcoef(np.column_stack([scores, filled]).T)[:2, 2:]
    np.testing.assert_allclose(model.feature_correlations, expected, atol=2e-4)
    page = html.unescape(re.sub(r"<[^>]*>", " ", report_html(model)))
    left_out = [j for j in range(8) if model.components[0, j] == 0 and abs(expected[0, j]) > 0.75]
    assert left_out
    assert all(f"{model.feature_names[j]} ({expected[0, j]:+.2f})" in page for j in left_out)


def test_units_have_a_column_where_names_have_them(fitted_files):
    model, _ = fitted_files
    named = replace(model, feature_names=("height [cm]", *model.feature_names[1:]))
    assert ">Unit<" not in report_html(model)
    assert ">Unit<" in report_html(named)
    assert "<td>cm</td>" in report_html(named)


def test_dense_pca_is_known_beyond_the_components(fitted_files):
    model, table = fitted_files
    rows = (table - table.mean()) / table.std()
    exact = np.linalg.eigvalsh(np.cov(rows.fillna(0.0).T))[::-1]
    np.testing.assert_allclose(model.facts["dense_variance_ratio"], exact / exact.sum(), rtol=1e-6, atol=1e-12)


def test_without_altair_it_says_what_to_install(fitted_files, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fedspca\[report\]'"):
        report_html(fitted_files[0])


@pytest.mark.parametrize(("d", "r"), [(3, 1), (3000, 20)])
def test_few_and_many_features_and_components_fit_a_page(d, r):
    rng = np.random.default_rng(0)
    components = np.zeros((r, d))
    for number in range(r):
        components[number, rng.permutation(d)[: min(d, 40)]] = rng.standard_normal(min(d, 40))
    components /= np.linalg.norm(components, axis=1, keepdims=True)
    model = SparsePCAModel(
        components=components,
        mean=np.zeros(d),
        scale=np.ones(d),
        explained_variance=np.ones(r),
        explained_variance_ratio=np.ones(r) / d,
        missing_share=np.zeros(d),
        covariance=np.eye(r),
        feature_names=tuple(f"a feature with a long name {j}" for j in range(d)),
        n_samples=500,
        n_sites=3,
        total_variance=float(d),
        facts={
            "feature_correlations": components.tolist(),
            "spread": [1.0] * d,
            "dense_variance_ratio": [0.01] * (r + 8),
        },
    )
    page = checked(report_html(model))
    assert len(page) < 2e6
    assert page.count('class="chart"') >= r + 1
