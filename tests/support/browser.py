"""A real browser for the console's tests: Debian's chromium, driven by Playwright.

`keep_picture` makes the pictures of the console's pages in the folder PYBROKER_PICTURES. With
PYBROKER_LOOKS it makes four of each page: light and dark, wide and narrow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, NamedTuple

import pytest

from .processes import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

    from pybroker_kafka.testing import KafkaCluster

NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE: ViewportSize = {"width": 1400, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
LOOKS = {
    "": ("light", WIDE),
    "-dark": ("dark", WIDE),
    "-narrow": ("light", NARROW),
    "-narrow-dark": ("dark", NARROW),
}
CHOOSE_THEME = """(wanted) => {
  if (document.documentElement.dataset.theme !== wanted) document.getElementById("theme").click();
}"""
SCROLL_BELOW_HEADER = """(part) => {
  part.scrollIntoView();
  scrollBy(0, -document.querySelector("header").offsetHeight - 8);
}"""
WAIT_MS = 120_000  # by the wall clock, so generous: a busy machine takes more than 30 s
# What a test asks for wrongly on purpose, and what the cluster refuses.
REFUSED = ("responded with a status of 400", "responded with a status of 502")

# Keeps the names of buttons that were there, and of those that were pressed.
WATCH = """
window.watched = { seen: new Set(), pressed: new Set() };
const heading = (part) => part.closest("section")?.querySelector("h2")?.textContent ?? "";
const page = () => document.querySelector("nav a[aria-current]")?.dataset.page;
const where = (button) => (button.closest("main") ? `${page()} / ${heading(button)}` : "above");
const named = (button) => `${where(button)} / ${button.closest("main") ? button.textContent : ""}`;
new MutationObserver((changes) => {
  for (const change of changes) for (const made of change.addedNodes) {
    if (made.nodeType !== 1) continue;
    const buttons = made.querySelectorAll("button:not(.sort, .teach button)");
    for (const one of buttons) window.watched.seen.add(named(one));
  }
}).observe(document, { childList: true, subtree: true });
document.addEventListener("click", (event) => {
  const pressed = event.target.closest("button");
  if (pressed) window.watched.pressed.add(named(pressed));
}, true);
"""
SAFE = ("Copy", "Save CSV", "Copy as a command", "Copy the command", "Save JSON", "Save SVG")


def keep_picture(page: Page, name: str, *, every_look: bool = False, top: str = "") -> None:
    """Save the page as a picture; a narrow page is scrolled to its part `top`."""
    folder = os.environ.get("PYBROKER_PICTURES")
    if not folder:
        return
    page.evaluate("document.getElementById('told').replaceChildren()")
    looks = LOOKS if every_look or os.environ.get("PYBROKER_LOOKS") else {"": LOOKS[""]}
    for suffix, (theme, size) in looks.items():
        page.evaluate(CHOOSE_THEME, theme)
        page.set_viewport_size(size)
        if top and size is NARROW:
            page.locator(top).first.evaluate(SCROLL_BELOW_HEADER)
        page.screenshot(path=Path(folder) / f"{name}{suffix}.png")
    page.evaluate(CHOOSE_THEME, "light")
    page.set_viewport_size(WIDE)


class Seen(NamedTuple):
    """The cluster, and the browser that looks at it."""

    kafka: KafkaCluster
    page: Page
    address: str

    def open(self, place: str) -> None:
        self.page.goto(self.address.split("?")[0] + "#/" + place)

    def keep_picture(self, name: str) -> None:
        keep_picture(self.page, name)


def is_too_wide(page: Page) -> bool:
    """Whether the page is wider than its window; a table that scrolls by itself does not count."""
    root = "document.documentElement"
    wide: bool = page.evaluate(f"{root}.scrollWidth > {root}.clientWidth")
    return wide


def press_what_only_copies(page: Page) -> None:
    """All that copy or save something of the page that is open."""
    for name in SAFE:
        for button in page.locator("main").get_by_text(name, exact=True).all():
            button.click()


def skip_unless_whole(request: pytest.FixtureRequest) -> None:
    """For a test of what all tests of its file have done."""
    mine = [item for item in request.session.items if item.path == request.node.path]
    if len(mine) != sum(name.startswith("test_") for name in vars(request.module)):
        pytest.skip("only where all tests of this file are run")


def never_pressed(page: Page, *pages: str) -> list[str]:
    """Buttons of these pages that were there while nobody pressed any of their name."""
    found: list[str] = page.evaluate(
        "[...window.watched.seen].filter((name) => !window.watched.pressed.has(name))"
    )
    return sorted(name for name in found if name.startswith(pages))


def chromium() -> str:
    """Its path; the test is skipped where there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    return found


class PageClock:
    """The CPU time of a page's main thread, which a busy machine does not lengthen."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def cpu_ms(self) -> float:
        """Of all tasks so far: a difference is the most that one task between may have taken."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        seconds: float = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
        return 1000 * seconds


@contextmanager
def browser_page() -> Iterator[Page]:
    """A page that fails the test at its end if a script of it failed or something was refused."""
    path = chromium()
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)
    complaints: list[str] = []
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=path, args=options)
        page = browser.new_page(viewport=WIDE)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.add_init_script(WATCH)
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda line: complaints.append(f"{line.text} {line.location['url']}"))
        yield page
        browser.close()
    unexpected = [line for line in complaints if not any(one in line for one in REFUSED)]
    assert not unexpected, "\n".join(unexpected)


@contextmanager
def console_process(data_dir: Path | None, *options: str) -> Iterator[str]:
    """`pybroker console` for the cluster there, if any; the address with its token."""
    command = [sys.executable, "-m", "pybroker_kafka", "console", "--port", "0", *options]
    if data_dir is not None:
        command += ["--data-dir", str(data_dir)]
    with TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT.parent
        )
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()
            assert process.wait(60) == 0
            if process.stdout is not None:
                process.stdout.close()
            log.seek(0)
            print(log.read(), end="")  # pytest shows it if the tests of this console end badly
