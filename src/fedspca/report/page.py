"""The report as one page. It contains all that it shows, and its content security policy forbids loading anything."""

import base64
import csv
import hashlib
import io
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedspca._version import __version__
from fedspca.files import new_file, spreadsheet_safe
from fedspca.model import InvalidModel, SparsePCAModel
from fedspca.model.folder import DAMAGED
from fedspca.report import methods, record, sections, words
from fedspca.report.certainty import certainty
from fedspca.report.markup import Markup, join, tag, void, with_code
from fedspca.site.errors import count


class Part(NamedTuple):
    """A section of the report. A section with ``record`` says how the result was found, and is not printed."""

    name: str
    title: str
    content: Markup
    record: bool = False


def write_report(
    model: SparsePCAModel,
    path: str | Path,
    *,
    scores: NDArray[np.float64] | None = None,
    classes: Sequence[object] | None = None,
    title: str | None = None,
) -> None:
    """Write the report of a model as one HTML file. It needs the extra ``report``.

    Parameters
    ----------
    model : SparsePCAModel
        The fitted model.
    path : path
        The file to write.
    scores : ndarray of shape (n, r), optional
        Scores of rows to draw in the biplot. Everyone who opens the report can see these rows.
    classes : sequence, optional
        The class or site of each of these rows, for colours.
    title : str, optional
        The title. The default describes the model.
    """
    with new_file(Path(path)) as draft:
        draft.write_text(report_html(model, scores=scores, classes=classes, title=title), encoding="utf-8")


def report_html(
    model: SparsePCAModel,
    *,
    scores: NDArray[np.float64] | None = None,
    classes: Sequence[object] | None = None,
    title: str | None = None,
) -> str:
    """Return the report as text; see :func:`write_report`."""
    try:
        return _page(model, title or words.headline(model), _parts(model, scores, classes))
    except (InvalidModel, ModuleNotFoundError):
        raise
    except DAMAGED as error:
        if scores is not None:
            raise  # the cause may be the scores, not the model
        raise InvalidModel(f"The facts of this model cannot be told ({type(error).__name__}: {error}).") from error


def _page(model: SparsePCAModel, title: str, parts: list[Part]) -> str:
    links = (tag("li", tag("a", part.title, href=f"#{part.name}")) for part in parts)
    body = [
        tag("section", tag("h2", part.title, id=part.name), part.content, class_="record" if part.record else None)
        for part in parts
    ]
    page = join(
        tag("a", "Skip to the components", href="#components", class_="skip"),
        tag(
            "header",
            tag("h1", title),
            tag("p", words.who_and_when(model), class_="soft"),
            tag("p", words.summary(model), class_="lead"),
            *(
                tag("p", tag("strong", "Caution. "), with_code(sentence), class_="caution")
                for sentence in model.cautions()
            ),
            tag("p", with_code(" ".join(told for told in (words.overlap(model), words.next_step(model)) if told))),
            _tiles(model),
            tag("nav", tag("ul", *links), aria_label="Contents"),
        ),
        tag("main", *body),
        tag(
            "footer",
            tag("p", f"Written by fedspca {__version__}. It holds no row of any site, unless rows were given to draw."),
        ),
    )
    return f'<!doctype html>\n<html lang="en">{_head(title)}{tag("body", page, _script())}</html>\n'


def _parts(model: SparsePCAModel, scores: NDArray[np.float64] | None, classes: Sequence[object] | None) -> list[Part]:
    components = join(*(sections.component(model, number) for number in range(model.n_components)))
    related = [sections.correlation(model), sections.biplot(model, scores, classes)]
    sent = record.communication(model) if model.rows_seen else Markup("")
    every = [
        Part("components", "Components", components),
        Part("certainty", "How sure it is", certainty(model) or Markup("")),
        Part("variance", "Variance captured and sparsity", sections.variance(model)),
        Part("relations", "How components and features relate", _side(related)),
        Part("sites", "How well it fits each site", sections.sites(model) if model.rows_seen else Markup("")),
        Part("features", "All features", sections.features(model)),
        Part("methods", "Methods, for a paper", _methods(model)),
        Part("files", "Files to take along", _downloads(model)),
        Part("convergence", "Convergence", record.convergence(model), record=True),
        Part("communication", "What the sites sent", sent, record=True),
        Part("institutions", "Between institutions", record.between_institutions(model)),
        Part("data", "The data", record.data_notes(model)),
        Part("settings", "Settings and versions", record.reproduction(model), record=True),
    ]
    return [part for part in every if part.content]


def _side(parts: Sequence[Markup | None]) -> Markup:
    return tag("div", *parts, class_="side") if any(parts) else Markup("")


def _methods(model: SparsePCAModel) -> Markup:
    cited = tag("ul", *(tag("li", each) for each in methods.references(model)))
    return join(tag("p", methods.paragraph(model), class_="quote"), tag("p", "References:"), cited)


def _downloads(model: SparsePCAModel) -> Markup:
    """Offer the loadings as a file that is inside the page, and say how to save figures."""
    packed = base64.b64encode(loadings_csv(model).encode()).decode()
    link = tag("a", "loadings.csv", href=f"data:text/csv;base64,{packed}", download="loadings.csv")
    told = " has every feature with a weight. Each chart has a button that saves it as SVG; for PNG and PDF: "
    return tag("p", link, told, tag("code", "fedspca report MODEL --figures FOLDER"), ".")


def loadings_csv(model: SparsePCAModel) -> str:
    """Return the loadings of features that have a weight as CSV."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["feature", *(f"component {k + 1}" for k in range(model.n_components))])
    for j in np.flatnonzero(model.components.any(axis=0)):
        writer.writerow([spreadsheet_safe(model.feature_names[j]), *(repr(float(w)) for w in model.components[:, j])])
    return out.getvalue()


def _tiles(model: SparsePCAModel) -> Markup:
    sent = sum(r["bytes_up"] for r in model.facts.get("history", []))
    rounds = len(model.facts.get("history", []))
    seen = model.rows_seen
    rows = (
        [f"{model.n_samples:,.6g}", "sum of weights"] if model.weighted else count(model.n_samples, "row").split(" ", 1)
    )
    if not seen:
        rows = [f"{model.n_samples:,}" if model.rows_counted else "unknown", "rows behind it"]
    figures = [
        rows,
        *([count(model.n_sites, "site").split(" ", 1)] if seen else []),
        count(len(model.feature_names), "feature").split(" ", 1),
        (f"{model.captured_ratio:.1%}", "variance captured"),
        count(sum(model.nonzeros), "non-zero weight").split(" ", 1),
        count(rounds, "round").split(" ", 1),
        *([(words.size(sent), "sent by each site in the fit")] if seen else []),
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
