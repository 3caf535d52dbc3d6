"""How charts look, and how they become static files.

A chart is drawn with a palette. ``PAPER`` has fixed colours for print. ``PAGE`` has the names of CSS variables, so that
an inline chart follows the light or dark mode of its page.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from fedspca.files import new_file

Rows: TypeAlias = list[dict[str, Any]]

WIDTH, HEIGHT = 300, 210
ENLARGED = 1.15  # scale of a chart on a wide page; on a phone a chart shrinks to its column
FONT = "system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, Liberation Sans, sans-serif"
MARGINS = {"left": 16, "right": 16, "top": 5, "bottom": 5}  # the reader's font may be wider than ours
NOT_DRAWN = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd]")
FORMATS = (".svg", ".png", ".pdf", ".html", ".json")


@dataclass(frozen=True)
class Palette:
    """Colours, named by their purpose; the first four are for data."""

    plus: str
    minus: str
    third: str
    mark: str
    other: str
    ink: str
    soft: str
    rule: str
    paper: str


PAPER = Palette("#1f63b5", "#b4501b", "#217a4b", "#7a2fa0", "#8a94a0", "#1b1f24", "#57606a", "#d5dae0", "#ffffff")
PAGE = Palette(*(f"var(--{name})" for name in Palette.__dataclass_fields__))


def altair() -> Any:
    """Return the charting library, or say what to install."""
    try:
        import altair as library
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Charts need altair and vl-convert. Install them with: pip install 'fedspca[report]'"
        ) from None
    return library


def dressed(chart: Any, palette: Palette) -> Any:
    """Set the colours and fonts of a complete chart."""
    text = {"labelColor": palette.ink, "titleColor": palette.soft, "titleFontWeight": "normal"}
    sizes = {"labelFontSize": 12, "titleFontSize": 12, "labelFont": FONT, "titleFont": FONT}
    lines = {"gridColor": palette.rule, "domainColor": palette.soft, "tickColor": palette.soft}
    return (
        chart.configure(background="transparent" if palette is PAGE else palette.paper, font=FONT, padding=MARGINS)
        .configure_view(stroke=None)
        .configure_axis(**text, **sizes, **lines, labelLimit=170)
        .configure_legend(**text, **sizes, orient="top", title=None, symbolStrokeWidth=2, labelLimit=240)
        .configure_title(color=palette.ink, font=FONT, fontSize=13, fontWeight=600, anchor="start")
    )


def data(rows: Rows) -> Any:
    """Return rows as data that are stored inside the chart."""
    return altair().Data(values=rows)


def specification(chart: Any) -> Any:
    """Return a chart as Vega-Lite, without the characters that its converter cannot process.

    Names of features may contain any character. A character that XML forbids makes the whole process crash. A label
    that is cut in the middle of a character of two code units (an emoji) makes the drawing fail.
    """
    return _printable_part(chart.to_dict())


def _printable_part(part: Any) -> Any:
    if isinstance(part, str):
        return printable(part)
    if isinstance(part, dict):
        return {_printable_part(key): _printable_part(value) for key, value in part.items()}
    return [_printable_part(value) for value in part] if isinstance(part, list) else part


def printable(text: str) -> str:
    """Return a text with a replacement sign for each character that cannot be drawn."""
    return NOT_DRAWN.sub("\N{REPLACEMENT CHARACTER}", text)


def chart_svg(chart: Any) -> str:
    """Return a chart as SVG."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(specification(chart)))


def inline_svg(chart: Any, label: str) -> str:
    """Return a chart as an element for a page, with a description for screen readers."""
    from html import escape

    drawn = chart_svg(chart)
    head, _, rest = drawn.partition(">")
    box = re.search(r'viewBox="([^"]*)"', head)
    view = box[1] if box else f"0 0 {WIDTH} {HEIGHT}"
    width = round(ENLARGED * float(view.split()[2]))
    told = escape(label, quote=True)
    return f'<svg class="chart" width="{width}" viewBox="{view}" role="img" aria-label="{told}">{rest}'


def save_chart(chart: Any, path: str | Path) -> None:
    """Write a chart for a paper or a page.

    Parameters
    ----------
    chart : altair.TopLevelMixin
        A chart from one of the ``plot`` functions.
    path : path
        The file to write. Its ending sets the format: .svg, .png, .pdf, .html or .json.
    """
    path = Path(path)
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise ValueError(f"{path}: a chart is written as {', '.join(FORMATS)}. Got {kind or 'no ending'} instead.")
    with new_file(path) as draft:
        draft.write_bytes(_as_bytes(chart, kind))


def _as_bytes(chart: Any, kind: str) -> bytes:
    import vl_convert

    spec = specification(chart)
    if kind == ".png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=2))
    if kind == ".pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec))
    texts = {
        ".svg": lambda: vl_convert.vegalite_to_svg(spec),
        ".html": lambda: vl_convert.vegalite_to_html(spec, bundle=True),
        ".json": chart.to_json,
    }
    return str(texts[kind]()).encode()
