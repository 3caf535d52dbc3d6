"""The report in a browser: charts are drawn, tables sort, nothing is loaded, the console is silent."""

import base64
import re
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from fedspca import ExactSPCA, LocalFederation, Policy, Site
from fedspca.experiments.data import sites_in_order, wdbc_star
from fedspca.fit import FitSettings
from fedspca.fit.facts import judge
from fedspca.fit.grid import follow_path
from fedspca.fit.inputs import SHOWN_ALONE
from fedspca.model import SparsePCAModel
from fedspca.report import write_report

SIZES = {"wide": 1280, "narrow": 375}
EVIL = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    data = wdbc_star(n_random=20)
    owners = sites_in_order(len(data.rows), 4)
    names = [EVIL, *data.feature_names[1:]]
    policy = Policy(alone=SHOWN_ALONE)
    sites = [
        Site(f"<b>{name}</b>", data.rows[owners == name], feature_names=names, policy=policy)
        for name in np.unique(owners)
    ]
    federation = LocalFederation(sites)
    fitted = ExactSPCA(3, n_nonzero=8, scale=True).fit_federation(federation)
    path = follow_path(FitSettings(components=3), federation, [1, 3, 8, 20, 50])
    judged = judge(federation, sites, fitted)
    model = SparsePCAModel.from_estimator(fitted, covariance=judged.covariance, path=path, **judged.facts)
    file = tmp_path_factory.mktemp("report") / "report.html"
    write_report(model, file, scores=model.transform(data.rows[:100]))
    return file


@pytest.fixture(params=[(size, scheme) for size in SIZES for scheme in ("light", "dark")], ids="-".join)
def opened(request, browser, page):
    size, scheme = request.param
    metrics = {"width": SIZES[size], "height": 900, "deviceScaleFactor": 1, "mobile": size == "narrow"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for log in ("browser", "performance"):
        browser.get_log(log)  # what came before is not this page's
    browser.get(page.as_uri())
    yield browser
    keep = Path("build/drill")
    keep.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(keep / f"report-{size}-{scheme}.png"))


def test_all_charts_are_drawn_and_nothing_overflows(opened):
    charts = opened.find_elements(By.CSS_SELECTOR, "svg.chart")
    assert len(charts) >= 9
    for chart in charts:
        assert chart.size["width"] > 200
        assert chart.size["height"] > 30
        assert len(chart.find_elements(By.CSS_SELECTOR, "path, line")) > 2
        assert chart.get_attribute("aria-label")
    wide = opened.execute_script("return document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0


def test_nothing_is_loaded_and_the_console_is_silent(opened):
    import json

    assert opened.get_log("browser") == []
    asked = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    urls = {m["params"]["request"]["url"] for m in asked if m["method"] == "Network.requestWillBeSent"}
    assert {url for url in urls if not url.startswith("file:") or not url.endswith("report.html")} == set()
    assert opened.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_a_name_with_markup_is_text(opened):
    assert "broken" not in opened.title
    assert opened.find_elements(By.TAG_NAME, "img") == []
    cells = [cell.text for cell in opened.find_elements(By.CSS_SELECTOR, "#component-1 ~ .side td:first-child")]
    every = opened.find_element(By.TAG_NAME, "body").get_attribute("textContent")
    assert cells
    assert "<b>site 1</b>" in every


def column(table, number):
    return [
        row.find_elements(By.TAG_NAME, "td")[number].text for row in table.find_elements(By.CSS_SELECTOR, "tbody tr")
    ]


def test_tables_sort_by_mouse_and_by_keyboard(opened):
    table = opened.find_element(By.CSS_SELECTOR, ".side table")
    buttons = table.find_elements(By.CSS_SELECTOR, "th button")
    opened.execute_script("arguments[0].click()", buttons[1])
    weights = [float(text) for text in column(table, 1)]
    assert weights == sorted(weights, reverse=True)
    buttons[1].send_keys(Keys.ENTER)
    weights = [float(text) for text in column(table, 1)]
    assert weights == sorted(weights)
    heads = table.find_elements(By.TAG_NAME, "th")
    assert heads[1].get_attribute("aria-sort") == "ascending"
    buttons[0].send_keys(Keys.SPACE)
    names = column(table, 0)
    assert names == sorted(names, key=str.casefold, reverse=True)
    assert heads[1].get_attribute("aria-sort") is None


def test_what_is_pointed_at_says_its_name_and_weight(opened):
    bar = opened.find_element(By.CSS_SELECTOR, "svg.chart path[aria-label]")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", bar)
    ActionChains(opened).move_to_element(bar).perform()
    tip = opened.find_element(By.ID, "tip")
    assert tip.is_displayed()
    assert tip.text == " ".join(bar.get_attribute("aria-label").split())


def test_text_stands_out_from_its_ground(opened):
    """Contrast of at least 4.5 (WCAG AA) for text, in both schemes."""
    script = """
      const light = c => { const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
        .map(x => x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
        return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
      const ground = light(getComputedStyle(document.body).backgroundColor);
      return [...document.querySelectorAll("p, figcaption, td, a, caption, .chart text")].map(e => {
        const style = getComputedStyle(e), ink = light(e.closest("svg") ? style.fill : style.color);
        return (Math.max(ink, ground) + .05) / (Math.min(ink, ground) + .05); });
    """
    assert min(opened.execute_script(script)) >= 4.5


def test_the_page_prints_on_a_few_sheets(opened):
    pdf = base64.b64decode(opened.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert len(pdf) > 10_000
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 5  # it was ten once


def test_a_chart_is_saved_with_the_colours_that_are_seen(opened):
    opened.execute_script(
        "window.saved = []; URL.createObjectURL = (b) => { b.text().then((t) => saved.push(t)); return '#'; };"
    )
    button = opened.find_element(By.CSS_SELECTOR, "figure .save")
    opened.execute_script("arguments[0].click()", button)
    WebDriverWait(opened, 10).until(lambda d: d.execute_script("return saved.length"))
    (text,) = opened.execute_script("return saved")
    assert text.startswith("<svg")
    assert "var(" not in text


def test_the_loadings_can_be_taken_along(opened):
    link = opened.find_element(By.CSS_SELECTOR, "a[download]").get_attribute("href")
    table = base64.b64decode(link.split(",", 1)[1]).decode()
    assert table.splitlines()[0] == "feature,component 1,component 2,component 3"
