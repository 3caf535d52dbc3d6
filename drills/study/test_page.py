"""The pages of owner and coordinator in Chromium, as a person uses them, with a real study behind."""

import re
import tempfile
import time

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from fedspca.door.agreement import roster_phrase
from fedspca.study.owner import SiteFolder

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
EVIL = "<img src=x onerror=document.title='broken'>"


@pytest.fixture
def browser():
    options = webdriver.ChromeOptions()
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1000,1400"):
            options.add_argument(flag)
        chrome = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        yield chrome
        chrome.quit()


@pytest.fixture
def pages():
    """The commands that serve pages, ended with the test."""
    served = []
    yield served
    for process in served:
        process.terminate()
        process.communicate(timeout=30)


def opened(study, browser, pages, *arguments):
    """Start the command, open the address that it prints, and return that."""
    process = study.start(*arguments, "--no-browser")
    pages.append(process)
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:"), address
    browser.get(address)
    return address


def text(browser, part):
    return browser.find_element(By.ID, part).text


def until(browser, part, words, seconds=240):
    end = time.monotonic() + seconds
    while not browser.find_elements(By.ID, part) or words not in text(browser, part):
        assert time.monotonic() < end, browser.find_element(By.TAG_NAME, "body").text
        time.sleep(0.2)


def test_an_owner_approves_by_keyboard_and_the_coordinator_sees_the_run_to_its_report(three, browser, pages):
    for name in three.sites:
        store = SiteFolder(three.home / name).store
        for agreement in store.studies():
            store.withdraw(agreement)
    three.run("study", "status", "trial")
    three.approve()
    agreement = three.folder.agreement()
    north = SiteFolder(three.home / "north")
    north.store.withdraw(agreement)
    north.audit().add(verdict="refused", kind="flower", reason=EVIL)

    address = opened(three, browser, pages, "site", "open", "--site", "north")
    until(browser, "study", "No row leaves this machine")
    assert "Connected" in text(browser, "standing")
    assert "In short" in text(browser, "study")
    assert "east, south" in text(browser, "study")
    assert text(browser, "phrase") == roster_phrase(agreement)
    assert EVIL in text(browser, "log")
    assert "#" not in browser.current_url  # the token does not stay in the address

    def type_phrase(words):
        field = browser.find_element(By.ID, "heard")
        field.clear()
        field.send_keys(words)

    type_phrase("not what another owner reads")
    keys = ActionChains(browser)
    keys.send_keys(Keys.TAB, Keys.SPACE, Keys.TAB, Keys.ENTER).perform()  # the box, then the button
    until(browser, "said", "not the roster phrase")
    assert north.store.approved(agreement.hash) is None
    type_phrase(roster_phrase(agreement))
    ActionChains(browser).send_keys(Keys.TAB, Keys.TAB, Keys.ENTER).perform()
    until(browser, "decision", "You have approved")
    assert north.store.approved(agreement.hash) is not None

    owner = browser.current_window_handle
    browser.switch_to.new_window("tab")
    browser.get(address)  # in another tab, where the key is not: the address was used
    until(browser, "trouble", "used before")
    opened(three, browser, pages, "study", "open", "trial")
    until(browser, "sites", "approved")
    browser.find_element(By.ID, "ask").click()
    until(browser, "result", "Start the run")
    browser.find_element(By.ID, "run").click()
    until(browser, "progress", "question 1 of about 5")
    until(browser, "result", "Open the report")
    before = set(browser.window_handles)
    browser.find_element(By.ID, "report").click()
    end = time.monotonic() + 60
    while set(browser.window_handles) == before:
        assert time.monotonic() < end
        time.sleep(0.2)
    browser.switch_to.window((set(browser.window_handles) - before).pop())
    until(browser, "components", "Components")

    browser.switch_to.window(owner)
    until(browser, "log", "gram")
    sent = re.search(r"([\d,]+) bytes left this machine", text(browser, "released").replace("\n", " "))
    assert sent is not None
    assert int(sent[1].replace(",", "")) > 0
    browser.find_element(By.ID, "withdraw").click()
    until(browser, "decision", "You have not approved")
    assert north.store.approved(agreement.hash) is None
    assert "broken" not in browser.title
    asked = [
        entry["message"] for entry in browser.get_log("performance") if "Network.requestWillBeSent" in entry["message"]
    ]
    assert not [one for one in asked if '"url":"http' in one and '"url":"http://127.0.0.1:' not in one]
    assert not [
        line for line in browser.get_log("browser") if line["level"] == "SEVERE" and "403" not in line["message"]
    ]
