"""How the documentation is built: ``make docs``. It loads nothing from elsewhere, and any warning ends the build."""

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from build_parts import api_pages, cli_page

from fedspca._version import __version__

project, author, release = "fedspca", "The fedspca developers", __version__
copyright = "the fedspca developers"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "build_parts.py"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]  # the scraper is a function, which cannot be pickled

numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()
autodoc_typehints = "none"  # the docstrings have the types, in words
autodoc_member_order = "bysource"

html_theme = "pydata_sphinx_theme"
html_title = f"fedspca {release}"
html_static_path = ["_static"]
html_css_files = ["fedspca.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}  # light or dark as the reader's system is
html_sidebars = {"index": []}


def draw(block: tuple, block_vars: dict, gallery_conf: dict) -> str:
    """Write the chart that a block of an example left in ``chart`` as PNG, for the gallery."""
    from sphinx_gallery.scrapers import figure_rst

    from fedspca.plots import save_chart

    seen = block_vars["example_globals"]
    if seen.get("chart") is None:
        return ""
    path = Path(next(block_vars["image_path_iterator"]))
    save_chart(seen.pop("chart"), path)
    return figure_rst([str(path)], gallery_conf["src_dir"], "")


sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "image_scrapers": (draw,),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10_000,
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_signature": False,
}


def within_the_site(app: Any, docname: str, source: list[str]) -> None:
    """Take off links that lead to files outside the documentation: a reader of the site has no such files."""
    folder = (HERE / docname).parent

    def kept(link: re.Match[str]) -> str:
        target = link[2].split("#")[0]
        outside = "://" not in target and not (folder / target).resolve().is_relative_to(HERE)
        return link[1] if target and outside else link[0]

    source[0] = re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", kept, source[0])


def with_bars(app: Any, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Write the bars of an absolute value so that they are not taken for a reference."""
    lines[:] = [line if "`" in line or ">>>" in line else line.replace("|", "\\|") for line in lines]


def skip_foreign(app: Any, what: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Leave out what classes have from scikit-learn: its own pages have it."""
    module = getattr(value, "__module__", None) or ""
    return True if module.startswith("sklearn") or name.endswith("_request") or name == "get_metadata_routing" else None


def setup(app: Any) -> None:
    """Write the pages that come from the code, before anything is read."""
    made = HERE / "reference"
    made.mkdir(exist_ok=True)
    (made / "cli.md").write_text(cli_page(), encoding="utf-8")
    for name, text in api_pages().items():
        (made / name).write_text(text, encoding="utf-8")
    app.connect("source-read", within_the_site)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", with_bars, priority=900)
