"""The console as people see it: in a real browser, at a cluster of three brokers.

One cluster, one console and one browser for all; about 20 s. With PYBROKER_PICTURES=docs/pictures
the pages are kept as pictures for docs/CONSOLE.md.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pybroker.testing import KafkaCluster
from tests.support.browser import browser_page, chromium, console_process

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURES = os.environ.get("PYBROKER_PICTURES")


class Seen(NamedTuple):
    """The cluster, and the browser that looks at it."""

    kafka: KafkaCluster
    page: Page
    address: str

    def open(self, place: str) -> None:
        self.page.goto(self.address.split("?")[0] + "#/" + place)

    def keep_picture(self, name: str) -> None:
        if PICTURES:
            self.page.screenshot(path=Path(PICTURES) / f"{name}.png")


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    chromium()
    with (
        KafkaCluster(brokers=3, metrics_port=0) as kafka,
        console_process(kafka.data_dir, "--console-write") as address,
        browser_page() as page,
    ):
        kafka.topic("orders", partitions=3)
        page.goto(address)
        assert "token" not in page.url
        yield Seen(kafka, page, address)


def test_a_failover_is_seen_in_the_grid(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    seen.open("cluster")
    expect(page.locator(".grid td.leader")).to_have_count(3)
    leaders = page.locator('.grid td.leader[data-cell$="@2"]')
    cell = leaders.first.get_attribute("data-cell")
    page.get_by_role("button", name="kill broker 2").click()
    expect(page.locator(f'[data-cell="{cell}"]')).to_have_class("place offline flash")
    expect(page.locator(".grid td.leader")).to_have_count(3)
    expect(page.locator(".timeline")).to_contain_text("broker 2 has left")
    seen.keep_picture("failover")
    page.get_by_role("button", name="restart broker 2").click()
    expect(page.locator(".grid td.offline")).to_have_count(0)
    expect(page.locator(".grid td.sync")).to_have_count(6)
    page.get_by_role("button", name="pause broker 3").click()
    expect(page.locator(".badge.late")).to_have_text("paused")
    page.get_by_role("button", name="resume broker 3").click()
    expect(page.locator("table").first.locator(".badge.good", has_text="running")).to_have_count(4)


def test_strangers_get_nothing(seen: Seen) -> None:
    root = seen.address.split("?")[0]
    strangers: list[tuple[str, dict[str, str]]] = [
        (root, {}),
        (seen.address, {"Host": "evil.example"}),
        (seen.address, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}),
        (root + "?token=wrong", {}),
        (root + "events", {"Cookie": "pybroker-console=1"}),
    ]
    for address, headers in strangers:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(address, headers=headers))
        assert refused.value.code in (401, 403, 421)
        refused.value.close()
