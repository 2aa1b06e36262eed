"""A headless Chromium, Debian's, as the reader of pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from tests.tools import require

HINT = "apt-get install chromium chromium-driver"
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1440,1400"),
)


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own, which asks the network for nothing by itself."""
    options = Options()
    options.binary_location = require("chromium", HINT)
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(require("chromedriver", HINT)))
    try:
        yield browser
    finally:
        browser.quit()
