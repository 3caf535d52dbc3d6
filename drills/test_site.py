"""The documentation in a browser: no link is dead, nothing is loaded from elsewhere, pages fit a phone."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build/docs"
LOOKED_AT = ("index", "tutorial", "gallery/index", "gallery/plot_01_first_look", "reference/api", "reference/cli")


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.ids = [], set()

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        self.links += [given[name] for name in ("href", "src") if given.get(name)]


@pytest.fixture(scope="session")
def pages():
    if not (SITE / "index.html").exists():
        command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "docs", str(SITE)]
        subprocess.run(command, cwd=ROOT, check=True)
    read = {}
    for path in (found for found in SITE.rglob("*.html") if "_static" not in found.parts):
        read[path.resolve()] = Links()
        read[path.resolve()].feed(path.read_text(encoding="utf-8"))
    return read


def test_no_link_is_dead(pages):
    dead = []
    for path, parsed in pages.items():
        for link in parsed.links:
            target, part = urldefrag(unquote(link))
            if "://" in target or target.startswith(("mailto:", "data:", "javascript:")):
                continue
            file = (path.parent / target.split("?")[0]).resolve() if target else path
            there = file.exists() or (file / "index.html").exists()
            known = not part or file not in pages or part in pages[file].ids
            dead += [] if there and known else [f"{path.relative_to(SITE.resolve())}: {link}"]
    assert dead == []
    assert len(pages) > 30


def test_there_are_at_least_ten_examples_with_pictures(pages):
    made = list(SITE.glob("gallery/plot_*.html"))
    assert len(made) >= 10
    for page in made:
        assert any("_images" in link and link.endswith(".png") for link in pages[page.resolve()].links), page.name


@pytest.mark.parametrize("width", [1280, 375])
def test_pages_open_without_a_word_in_the_console_and_fit(browser, pages, width):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for name in LOOKED_AT:
        for log in ("browser", "performance"):
            browser.get_log(log)
        browser.get((SITE / f"{name}.html").as_uri())
        said = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert said == [], name
        asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
        urls = {m["params"]["request"]["url"] for m in asked if m["method"] == "Network.requestWillBeSent"}
        assert {url for url in urls if not url.startswith(("file:", "data:"))} == set(), name
        assert browser.execute_script("return document.documentElement.scrollWidth - innerWidth") <= 0, name
