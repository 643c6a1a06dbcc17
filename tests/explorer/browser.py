"""Chromium with a page of the explorer.

`python -m tests.explorer.browser FILE …` prints the size of pages and the seconds until they are drawn;
`python -m tests.explorer.browser river.html --picture docs/explorer.png` draws the picture of the guide.
"""

from __future__ import annotations

import argparse
import io
import pathlib
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

from jaxgadget.explorer.page import Page

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    *(
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

CLICK = """
const found = document.querySelector(arguments[0]);
if (!found) throw new Error(`no element ${arguments[0]}`);
found.click();
"""


TYPE = """
const found = document.getElementById(arguments[0]);
found.value = arguments[1];
found.dispatchEvent(new Event('input'));
"""


class Browser:
    """A page in Chromium."""

    def __init__(self, folder: pathlib.Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        options.binary_location = str(CHROMIUM)
        for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}", "--window-size=1280,900"):
            options.add_argument(flag)
        downloads = folder / "downloads"
        downloads.mkdir()
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        self.folder, self.downloads = folder, downloads

    def open(self, page: Page | pathlib.Path, link: str = "") -> None:
        """Opens a page, and waits until it is drawn."""
        path = page.absolute() if isinstance(page, pathlib.Path) else self.folder / "page.html"
        if isinstance(page, Page):
            page.save(path)
        self.driver.get("about:blank")
        self.driver.get(f"file://{path}{'#' + link if link else ''}")
        self.wait(lambda: self.run("return document.documentElement.dataset.ready"))

    def wait(self, condition: Callable[[], Any]) -> Any:
        """Waits for a true value."""
        end = time.monotonic() + 20
        while not (value := condition()):
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)
        return value

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script."""
        return self.driver.execute_script(script, *arguments)

    def click(self, selector: str) -> None:
        """Clicks the first element of a selector, and waits until the page is drawn."""
        self.run(CLICK, selector)
        self.settle()

    def type(self, field: str, text: str) -> None:
        """Types a text into a field."""
        self.run(TYPE, field, text)

    def key(self, key: str) -> None:
        """Presses a key."""
        self.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))", key)
        self.settle()

    def settle(self) -> None:
        """Waits until the page is drawn."""
        self.driver.execute_async_script("setTimeout(arguments[0], 1)")  # changes of the address are events
        self.wait(lambda: self.run("return document.documentElement.dataset.ready"))

    def text(self, selector: str) -> str:
        """Text of the first element."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def texts(self, selector: str) -> list[str]:
        """Texts of all elements."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)", selector)

    def node(self) -> int:
        """The node shown."""
        return int(self.run("return document.querySelector('.crumb.here').dataset.node"))

    def log(self) -> list[str]:
        """Messages of the console since the last call."""
        return [each["message"] for each in self.driver.get_log("browser")]


def draw_picture(opened: Browser, page: pathlib.Path, picture: pathlib.Path) -> None:
    """Draws a river after a check."""
    from PIL import Image

    opened.driver.set_window_size(1280, 860)
    opened.open(page, "line=check&select=A5s")
    image = Image.open(io.BytesIO(opened.driver.get_screenshot_as_png())).convert("RGB")
    image.quantize(255, dither=Image.Dither.NONE).save(picture, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--picture", type=pathlib.Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        opened = Browser(pathlib.Path(folder))
        for page in asked.pages:
            began = time.perf_counter()
            opened.open(page)
            seconds = time.perf_counter() - began
            print(f"{page}: {page.stat().st_size / 1e6:.1f} MB, drawn after {seconds:.2f} s")
        if asked.picture is not None:
            draw_picture(opened, asked.pages[0], asked.picture)
        opened.driver.quit()


if __name__ == "__main__":
    main()
