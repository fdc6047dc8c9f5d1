"""The console at a cluster with three ZooKeepers, in a real browser; about 15 s.

With PYBROKER_PICTURES=docs/pictures the page is kept as pictures for docs/CONSOLE.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import Seen, browser_page, chromium, console_process, keep_picture
from tests.support.patience import until

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    chromium()
    with (
        KafkaCluster(brokers=1, zookeepers=3, metrics_port=0) as kafka,
        console_process(kafka.data_dir, "--console-write") as address,
        browser_page() as page,
    ):
        page.goto(address)
        yield Seen(kafka, page, address)


def test_a_leader_that_is_killed_in_the_console(seen: Seen) -> None:
    from playwright.sync_api import expect

    page, kafka = seen.page, seen.kafka
    leader = kafka.zookeeper_leader()
    seen.open("cluster")
    table = page.get_by_role("table", name="Members of the ensemble")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(3)
    row = rows.filter(has_text=leader)
    expect(row).to_contain_text("leader")
    expect(table.locator("tbody")).to_contain_text("follower")
    expect(page.get_by_text("3 of 3 members serve; 1 more may be lost.")).to_be_visible()
    page.get_by_role("button", name=f"kill {leader}", exact=True).click()
    expect(page.get_by_text("2 of 3 members serve; 0 more may be lost.")).to_be_visible()
    until(lambda: kafka.zookeeper_leader() != leader)
    new = kafka.zookeeper_leader()
    expect(rows.filter(has_text=new)).to_contain_text("leader")
    expect(page.locator("ol.timeline")).to_contain_text(f"{new} leads the ensemble of ZooKeepers")
    kafka.topic("orders")
    keep_picture(page, "ensemble", every_look=True, top="h2:has-text('Ensemble')")
    page.get_by_role("button", name=f"restart {leader}", exact=True).click()
    expect(page.get_by_text("3 of 3 members serve; 1 more may be lost.")).to_be_visible()
    kafka.wait_for_zookeepers()
    until(lambda: row.locator("td").all_inner_texts()[-3] == "0")


def test_the_words_of_a_member(seen: Seen) -> None:
    from playwright.sync_api import expect

    leader = seen.kafka.zookeeper_leader()
    seen.open("inside/zookeeper/1")
    for member in seen.kafka.zookeepers:
        seen.page.get_by_label("Member").select_option(member)
        seen.page.get_by_role("button", name="Monitoring").click()
        role = "leader" if member == leader else "follower"
        expect(seen.page.locator("pre").last).to_contain_text(
            re.compile(rf"zk_server_state\s+{role}")
        )
