"""The console's pages for what Kafka 4 brings: convergence, queues, metrics of clients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
import trio

from pybroker_kafka.client.admin.config_types import ResourceKind
from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import browser_page, chromium, console_process, keep_picture
from tests.support.patience import until
from tests.support.share_member import MEMBER, ShareMember, set_config

pytestmark = pytest.mark.nightly

if TYPE_CHECKING:
    from playwright.sync_api import Page

CONFIG = {
    "pybroker.features": "4.3",
    "share.coordinator.state.topic.num.partitions": "3",
}
LOCK_MS = "60000"


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    chromium()
    with KafkaCluster(metrics_port=0, config=CONFIG) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def console(kafka: KafkaCluster) -> Iterator[tuple[Page, str]]:
    """The page, and the address of all others."""
    with console_process(kafka.data_dir) as address, browser_page() as page:
        page.goto(address)
        yield page, address.split("?")[0] + "#/"


def configure(kafka: KafkaCluster, kind: ResourceKind, name: str, **values: str) -> None:
    async def run() -> None:
        async with Cluster(kafka.bootstrap) as cluster:
            await set_config(cluster, kind, name, **values)

    trio.run(run)


def reader(kafka: KafkaCluster, topic: str, name: str) -> confluent_kafka.Consumer:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "readers",
            "client.id": name,
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe([topic])
    return consumer


def test_target_and_current_assignment_as_they_converge(
    kafka: KafkaCluster, console: tuple[Page, str]
) -> None:
    """The first member, which does not poll, keeps partitions that the second is to have."""
    from playwright.sync_api import expect

    page, address = console
    topic = kafka.topic("places", partitions=4)
    with closing(reader(kafka, topic, "first")) as first:
        until(lambda: first.poll(0.1) is None and len(first.assignment()) == 4)
        page.goto(address + "groups/readers")
        state = page.locator(".converging > p .badge").first
        expect(state).to_have_text("converged")
        with closing(reader(kafka, topic, "second")) as second, polled(second):
            expect(state).to_have_text("converging")
            old, new = (page.get_by_role("row", name=name) for name in ("first", "second"))
            expect(old.locator(".badge.to-go")).to_have_count(2)
            expect(new.locator(".badge.to-come")).to_have_count(2)
            new.scroll_into_view_if_needed()
            keep_picture(page, "convergence")
            with polled(first):
                expect(state).to_have_text("converged")
                expect(page.locator("tbody .badge.to-go, tbody .badge.to-come")).to_have_count(0)


@contextmanager
def polled(consumer: confluent_kafka.Consumer) -> Iterator[None]:
    ends = Event()

    def poll() -> None:
        while not ends.is_set():
            consumer.poll(0.1)

    thread = Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


@contextmanager
def share_member(kafka: KafkaCluster, topic: str) -> Iterator[None]:
    """A member of the share group `jobs` that has acquired the records of a topic."""
    acquired, ends = Event(), Event()

    async def live() -> None:
        async with Cluster(kafka.bootstrap) as cluster:
            member = ShareMember(cluster, "jobs", topic)
            await member.joined(1)
            while not await member.acquire(5) and not ends.is_set():
                await member.heartbeat()
            acquired.set()
            while not ends.is_set():
                await member.heartbeat()
                await trio.sleep(0.2)

    thread = Thread(target=trio.run, args=(live,))
    thread.start()
    try:
        until(acquired.is_set)
        yield
    finally:
        ends.set()
        thread.join()


def test_records_of_a_queue_in_flight(kafka: KafkaCluster, console: tuple[Page, str]) -> None:
    from playwright.sync_api import expect

    page, address = console
    limits = {
        "share_auto_offset_reset": "earliest",
        "share_record_lock_duration_ms": LOCK_MS,
    }
    configure(kafka, ResourceKind.GROUP, "jobs", **limits)
    topic = kafka.topic("work")
    kafka.produce(topic, "a", "b", "c")
    with share_member(kafka, topic):
        page.goto(address + "groups")
        page.get_by_role("link", name="jobs").click()
        row = page.get_by_role("region", name="records in flight").locator("tbody tr").first
        expect(row).to_contain_text("acquired")
        expect(row).to_contain_text("1 of 5")
        expect(row).to_contain_text(re.compile(r"[\d.]+ s"))
        expect(page.locator(".facts")).to_contain_text("Acquired3")
        expect(page.get_by_role("region", name="members")).to_contain_text(MEMBER)
        keep_picture(page, "share-group")
        axe_finds_nothing(page)


def test_metrics_that_clients_push(kafka: KafkaCluster, console: tuple[Page, str]) -> None:
    from playwright.sync_api import expect

    page, address = console
    configure(kafka, ResourceKind.CLIENT_METRICS, "all", metrics="*", interval_ms="500")
    writer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "client.id": "till-7"})
    topic = kafka.topic("sales")
    page.goto(address + "clients")
    row = page.get_by_role("region", name="pushed metrics").get_by_role("row", name="till-7")

    def is_shown() -> bool:
        writer.produce(topic, b"sold")
        writer.flush(10)
        return row.count() == 1

    until(is_shown)
    expect(row).to_contain_text("rdkafka")
    row.get_by_role("button", name="values of").click()
    values = page.get_by_role("region", name="values")
    expect(values).to_contain_text("org.apache.kafka.producer")
    keep_picture(page, "clients")
    axe_finds_nothing(page)


def axe_finds_nothing(page: Page) -> None:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
