"""The report as text; ``make drill`` opens it in a browser."""

from html.parser import HTMLParser

import numpy as np
import pytest

from fedspca import FASPCA, ExactSPCA
from fedspca.model import SparsePCAModel
from fedspca.report import report_html, write_report
from helpers.study_files import frame, make_rows

VOID = {"meta"}


class Checker(HTMLParser):
    """Every element closed in order, and nothing that would load anything."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], [], []

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        assert not {"src", "onclick", "style"} & set(given)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if "href" in given else []
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
    assert "do not let their own figures be shown" in page
    write_report(SparsePCAModel.from_estimator(fitted), tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == page
