"""The console's pages of tables, in a real browser; about 10 s."""

from __future__ import annotations

import json

import pytest
from axe_playwright_python.sync_playwright import Axe

from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import browser_page, chromium, console_process, is_too_wide

pytestmark = pytest.mark.nightly

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}


def test_lag_snapshots_and_refused_records_of_a_table() -> None:
    from playwright.sync_api import expect

    chromium()
    with (
        KafkaCluster() as kafka,
        console_process(kafka.data_dir) as address,
        browser_page() as page,
    ):
        home = address.split("?")[0]
        page.goto(address)
        page.goto(f"{home}#/tables")
        expect(page.locator("main")).to_contain_text("No tables yet")
        plain = kafka.topic("plain", exact=True)
        page.goto(f"{home}#/tables/{plain}")
        expect(page.locator("main")).to_contain_text("alter plain --set pybroker.table=iceberg")

        dead = kafka.topic("dead", exact=True)
        configs = {
            "pybroker.table": "iceberg",
            "pybroker.table.schema": json.dumps(SCHEMA),
            "pybroker.table.dead.letter.topic": dead,
            "pybroker.table.target.lag.ms": 100,
        }
        flights = kafka.topic("flights", exact=True, config=configs)
        kafka.produce(flights, '{"id": 1}', '{"id": "one"}', '{"id": 2}')
        page.goto(f"{home}#/topics/{flights}")
        page.get_by_role("link", name="Snapshots, files and refused records").click()
        snapshots = page.locator("section", has_text="Snapshots").get_by_role("table")
        expect(snapshots.locator("tbody tr").first).to_contain_text("0: 3")
        refused = page.locator("section", has_text="Refused records").locator("tbody tr")
        expect(refused).to_have_count(1)
        expect(refused).to_contain_text('{"id": "one"}')
        expect(page.locator("dl")).to_contain_text("kafka.flights")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        page.set_viewport_size({"width": 390, "height": 800})
        assert not is_too_wide(page)
        page.goto(f"{home}#/tables")
        expect(page.locator("main tbody")).to_contain_text("current")
        assert not is_too_wide(page)
