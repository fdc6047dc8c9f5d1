"""The console's section of a tiered topic, in a real browser; about 10 s."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from pybroker_kafka import BlockingProducer
from pybroker_kafka.local.tier import tier_keys
from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import browser_page, chromium, console_process, is_too_wide

pytestmark = pytest.mark.nightly

CONFIGS = {
    "remote.storage.enable": "true",
    "segment.bytes": "20000",
    "local.retention.bytes": "1",
}
RECORDS = 400


def test_what_lies_in_the_tier_and_what_it_costs(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    chromium()
    config = {
        **tier_keys(str(tmp_path / "tier"), 1, {}),
        "remote.log.manager.task.interval.ms": "100",
        "log.retention.check.interval.ms": "100",
        "log.initial.task.delay.ms": "0",
    }
    with (
        KafkaCluster(config=config) as kafka,
        console_process(kafka.data_dir) as address,
        browser_page() as page,
    ):
        topic = kafka.topic("history", config=CONFIGS)
        with BlockingProducer(kafka.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send(topic, b"value %d " % number * 40)
        page.goto(address)
        page.goto(f"{address.split('?')[0]}#/topics/{topic}")
        section = page.locator("section", has_text="Remote tier")
        expect(section).to_contain_text("It costs less than $0.01 a month")
        row = section.get_by_role("table").locator("tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("0 to ")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        page.set_viewport_size({"width": 390, "height": 800})
        assert not is_too_wide(page)
