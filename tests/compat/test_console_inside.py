"""The console's pages about the inside, in a real browser, and strangers without its token; one
cluster for all, about 15 s.

With PYBROKER_PICTURES=docs/pictures the pages are kept as pictures for docs/CONSOLE.md.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

from pybroker_kafka.local import cluster_state
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import (
    NARROW,
    WIDE,
    Seen,
    browser_page,
    chromium,
    console_process,
    is_too_wide,
    never_pressed,
    press_what_only_copies,
    skip_unless_whole,
)
from tests.support.patience import until

pytestmark = pytest.mark.nightly

CONFIG = {"segment.bytes": 20_000, "index.interval.bytes": 500}
TOPIC = "orders"
RECORDS = 300


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    chromium()
    with (
        KafkaCluster(brokers=2, metrics_port=0) as kafka,
        console_process(kafka.data_dir) as address,
        browser_page() as page,
    ):
        assert kafka.topic(TOPIC, partitions=1, replication_factor=2, config=CONFIG) == TOPIC
        produce(kafka, RECORDS)
        page.goto(address)
        yield Seen(kafka, page, address)


def produce(kafka: KafkaCluster, records: int) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, batch_size=400, acks=1)
    for _ in range(records):
        producer.send(TOPIC, b"v" * 150)
    producer.flush(30)
    producer.close()


def test_a_requests_way(seen: Seen) -> None:
    from playwright.sync_api import expect

    leader = seen.kafka.leader(TOPIC)
    seen.open(f"inside/way/{leader}")
    times = seen.page.get_by_label("Times of")
    expect(times.locator("option", has_text=re.compile("^Produce$"))).to_have_count(1)
    times.select_option("Produce")
    drawing = seen.page.locator("svg.way")
    label = re.compile(r"^Produce: request queue [\d.]+ / [\d.]+ ms, local [\d.]+ / ")
    expect(drawing).to_have_attribute("aria-label", label)
    expect(drawing).to_contain_text(re.compile(r"[1-9]\d* connections"))
    seen.keep_picture("inside-way")


def test_who_waits(seen: Seen) -> None:
    from playwright.sync_api import expect

    kafka, page = seen.kafka, seen.page
    leader = kafka.leader(TOPIC)
    seen.open(f"inside/waiting/{leader}")
    row = page.locator("tbody tr", has_text="Fetch").filter(has_text="follower")
    expect(row.first).to_contain_text(f"{TOPIC}-0 from {RECORDS}")
    consumer = KafkaConsumer(
        TOPIC, bootstrap_servers=kafka.bootstrap, client_id="patient", fetch_max_wait_ms=20_000,
        auto_offset_reset="latest",
    )  # fmt: skip
    mine = page.locator("tbody tr", has_text="patient")

    def waits() -> bool:
        """A poll may end before its fetch is sent."""
        consumer.poll(200)
        return mine.count() == 1

    until(waits)
    expect(mine).to_contain_text("1 bytes, has 0")
    consumer.close()
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, client_id="careful", acks="all")
    there = producer.send(TOPIC, b"does not wait").get(30).offset + 1
    with kafka.pause(3 - leader):
        sent = producer.send(TOPIC, b"waits")
        mine = page.locator("tbody tr", has_text="careful")
        expect(mine).to_contain_text("Produce")
        expect(mine).to_contain_text(f"{TOPIC}-0: high watermark {there + 1}, it is {there}")
        seen.keep_picture("inside-waiting")
        drawing = page.locator("svg.replicas")
        seen.open(f"inside/replication/{leader}/{TOPIC}/0")
        says = f"broker {leader} ends at {there + 1}; high watermark {there}"
        expect(drawing).to_have_attribute("aria-label", says)
        seen.keep_picture("inside-replication")
    assert sent.get(30).offset == there
    producer.close()
    end = there + 1
    both = re.compile(rf"ends at {end}, .* ends at {end}; high watermark {end}$")
    expect(page.locator("svg.replicas")).to_have_attribute("aria-label", both)


def test_files_and_a_look_up(seen: Seen) -> None:
    from playwright.sync_api import expect

    kafka, page = seen.kafka, seen.page
    leader = kafka.leader(TOPIC)
    directory = Path(kafka.data_dir) / f"broker-{leader}" / f"{TOPIC}-0"
    seen.open("inside/files")
    page.get_by_label("Topic").fill(TOPIC)
    page.get_by_role("button", name="Show").click()
    logs = sorted(directory.glob("*.log"))
    assert len(logs) > 1
    expect(page.locator("tbody tr")).to_have_count(len(logs))
    expect(page.locator("tbody tr").last).to_contain_text("deleted in 6 days (retention.ms)")
    for path in directory.glob("*.*index"):
        expect(page.locator("tbody")).to_contain_text(path.name)
    seen.keep_picture("inside-files")
    seen.open(f"inside/lookup/{leader}/{TOPIC}/0")
    page.get_by_label("Offset").fill("137")
    page.get_by_role("button", name="Look up the offset").click()
    log = [path for path in logs if int(path.stem) <= 137][-1]
    headers = iter_batch_headers(log.read_bytes())
    position = next(at for at, header in headers if header.last_offset >= 137)
    expect(page.locator("ol.steps > li")).to_have_count(3)
    chosen = page.locator("tr.chosen")
    expect(chosen.first).to_contain_text(log.name)
    expect(chosen.last.locator("td").first).to_have_text(str(position))
    seen.keep_picture("inside-look-up")
    page.get_by_label("Time").fill("1000")
    page.get_by_role("button", name="Look up the time").click()
    expect(page.locator("ol.steps > li")).to_have_count(4)
    press_what_only_copies(page)
    expect(page.locator("tr.chosen").last.locator("td").first).to_have_text("0")
    page.get_by_label("Offset", exact=True).fill("99999")
    page.get_by_role("button", name="Look up the offset").click()
    expect(page.locator("ol.steps")).to_contain_text("Offset 99999 is not in this log")
    page.get_by_label("Topic").fill("nothing")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("button", name="Look up the offset").click()
    expect(page.locator("#told .bad").last).to_contain_text("has no replica of nothing-0")


def test_zookeepers_tree(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    seen.open("inside/zookeeper/1")
    for name in ("brokers", "topics", TOPIC, "partitions", "0", "state"):
        page.get_by_role("link", name=name, exact=True).last.click()
    leader = seen.kafka.leader(TOPIC)
    expect(page.locator("pre").first).to_contain_text(f'"leader": {leader}')
    seen.keep_picture("inside-zookeeper")
    seen.open("inside/zookeeper/1/brokers/ids/1")
    expect(page.locator(".facts")).to_contain_text("Goes with session")
    page.get_by_role("button", name="Sessions and ephemeral znodes").click()
    expect(page.locator("pre").last).to_contain_text("/brokers/ids/1")
    page.get_by_role("button", name="Watches by path").click()
    expect(page.locator("pre").last).to_contain_text("/controller")
    for name in ("Connections", "Server", "Monitoring"):
        page.get_by_role("button", name=name, exact=True).click()
        expect(page.locator("pre").last).not_to_contain_text("/controller")


def test_readable_by_all(seen: Seen) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for view in ("way", "waiting", "files", "lookup", "replication", "zookeeper"):
        seen.open(f"inside/{view}/1/{'brokers' if view == 'zookeeper' else TOPIC}/0")
        seen.page.get_by_role("heading", level=2).first.wait_for()
        found = Axe().run(seen.page)
        assert found.violations_count == 0, found.generate_report()
    seen.page.set_viewport_size(NARROW)
    assert not is_too_wide(seen.page)
    seen.page.set_viewport_size(WIDE)


def test_every_button_was_pressed(seen: Seen, request: pytest.FixtureRequest) -> None:
    skip_unless_whole(request)
    leader = seen.kafka.leader(TOPIC)
    for view, drawn in (
        ("way", "svg"),
        ("waiting", "table"),
        ("files", "table"),
        ("replication", "table"),
    ):
        seen.open(f"inside/{view}/{leader}/{TOPIC}/0")
        seen.page.locator("main").locator(drawn).first.wait_for()
        press_what_only_copies(seen.page)
    seen.page.get_by_role("button", name="Show").click()
    left = never_pressed(seen.page, "inside")
    assert not left, "\n".join(left)


def test_metrics_of_brokers_that_are_elsewhere(seen: Seen) -> None:
    """A console that is not told of their directory, but where they serve what they measure."""
    from playwright.sync_api import expect

    nodes = cluster_state.load(Path(seen.kafka.data_dir)).brokers
    told = [f"--metrics={node.node_id}=127.0.0.1:{node.metrics_port}" for node in nodes]
    bootstrap = f"--bootstrap-server={seen.kafka.bootstrap}"
    browser = seen.page.context.browser
    assert browser is not None
    with console_process(None, bootstrap, *told) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        page.goto(address.split("?")[0] + "#/plots")
        expect(page.get_by_role("region", name="stages")).to_contain_text("Produce")


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
