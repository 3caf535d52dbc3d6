"""The report as one page. It holds all that it shows, and a policy in its head forbids loading anything."""

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedspca._version import __version__
from fedspca.files import new_file
from fedspca.model import DAMAGED, InvalidModel, SparsePCAModel
from fedspca.report import record, sections, words
from fedspca.report.markup import Markup, join, tag, void


def write_report(model: SparsePCAModel, path: str | Path, *, scores: NDArray[np.float64] | None = None) -> None:
    """Write the report of a model as one HTML file.

    Parameters
    ----------
    model : SparsePCAModel
        What was fitted.
    path : path
        Where to write it.
    scores : ndarray of shape (n, r), optional
        Scores of rows to draw in the biplot. Each row that is drawn can be seen by whoever opens the report.
    """
    with new_file(Path(path)) as draft:
        draft.write_text(report_html(model, scores=scores), encoding="utf-8")


def report_html(model: SparsePCAModel, *, scores: NDArray[np.float64] | None = None) -> str:
    """Return the report as text; see :func:`write_report`."""
    try:
        return _page(model, scores)
    except InvalidModel:
        raise
    except DAMAGED as error:
        if scores is not None:
            raise  # it may be the scores
        raise InvalidModel(f"The facts of this model cannot be told ({type(error).__name__}: {error}).") from error


def _page(model: SparsePCAModel, scores: NDArray[np.float64] | None) -> str:
    parts = _parts(model, scores)
    contents = tag(
        "nav", tag("ul", *(tag("li", tag("a", t, href=f"#{i}")) for i, t, _ in parts)), aria_label="Contents"
    )
    body = [tag("section", tag("h2", title, id=name), content) for name, title, content in parts]
    page = join(
        tag("a", "Skip to the components", href="#components", class_="skip"),
        tag(
            "header",
            tag("h1", words.headline(model)),
            tag("p", words.summary(model), class_="lead"),
            *(tag("p", tag("strong", "Caution. "), caution, class_="caution") for caution in model.cautions()),
            _tiles(model),
            contents,
        ),
        tag("main", *body),
        tag(
            "footer",
            tag("p", f"Written by fedspca {__version__}. It holds no row of any site, unless rows were given to draw."),
        ),
    )
    return f'<!doctype html>\n<html lang="en">{_head(words.headline(model))}{tag("body", page, _script())}</html>\n'


def _parts(model: SparsePCAModel, scores: NDArray[np.float64] | None) -> list[tuple[str, str, Markup]]:
    components = join(*(sections.component(model, number) for number in range(model.n_components)))
    explained = tag("div", sections.variance(model), sections.sparsity_path(model), class_="side")
    related = tag("div", sections.correlation(model), sections.biplot(model, scores), class_="side")
    every = [
        ("components", "Components", components),
        ("variance", "Explained variance and sparsity", explained),
        ("relations", "How components and features relate", related),
        ("sites", "How well it fits each site", sections.sites(model)),
        ("convergence", "Convergence", record.convergence(model)),
        ("communication", "What the sites sent", record.communication(model)),
        ("institutions", "Between institutions", record.between_institutions(model)),
        ("data", "The data", record.data_notes(model)),
        ("settings", "Settings and versions", record.reproduction(model)),
    ]
    return [(name, title, content) for name, title, content in every if content not in ("", '<div class="side"></div>')]


def _tiles(model: SparsePCAModel) -> Markup:
    sent = sum(r["bytes_up"] for r in model.facts.get("history", []))
    figures = [
        (f"{model.n_samples:,}", "rows"),
        (f"{model.n_sites:,}", "sites"),
        (f"{len(model.feature_names):,}", "features"),
        (f"{sum(model.nonzeros):,}", "non-zero weights"),
        (f"{model.captured_ratio:.1%}", "variance captured"),
        (f"{len(model.facts.get('history', []))}", "rounds"),
        (words.size(sent), "sent by each site"),
    ]
    return tag("ul", *(tag("li", tag("b", value), tag("span", name)) for value, name in figures), class_="tiles")


def _head(title: str) -> Markup:
    style, script = _asset("style.css"), _asset("script.js")
    allowed = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    return tag(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=allowed),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style)),
    )


def _script() -> Markup:
    return tag("script", Markup(_asset("script.js")))


def _asset(name: str) -> str:
    return files("fedspca.report").joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
