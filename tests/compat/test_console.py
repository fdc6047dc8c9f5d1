"""The console as people see it: in a real browser, at a cluster of three brokers.

One cluster, one console and one browser for all; about 60 s. With PYBROKER_PICTURES=docs/pictures
the pages are kept as pictures for docs/CONSOLE.md.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
import trio

from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import (
    NARROW,
    WIDE,
    PageClock,
    Seen,
    browser_page,
    chromium,
    console_process,
    is_too_wide,
    never_pressed,
    press_what_only_copies,
    skip_unless_whole,
)
from tests.support.console_contents import (
    LARGE,
    commit_first,
    fill_segments,
    make_many,
    send_order,
    send_shapes,
    send_to_each,
)
from tests.support.hanging import hang, transactional
from tests.support.leader_watch import leader_watch
from tests.support.patience import until
from tests.support.schema_registry import schema_registry

if TYPE_CHECKING:
    pass

CONFIG = {
    "transaction.partition.verification.enable": "false",  # so that one can hang
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    chromium()
    with (
        KafkaCluster(brokers=3, metrics_port=0, config=CONFIG) as kafka,
        schema_registry() as registry,
        console_process(kafka.data_dir, "--console-write", "--registry-url", registry) as address,
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
    topic, number = str(cell).removesuffix("@2").rsplit("-", 1)
    with leader_watch(seen.kafka.bootstrap, topic, int(number)) as moved:
        page.evaluate(WATCH_LEADER, [cell, f"{topic}-{number}@"])
        page.get_by_role("button", name="kill broker 2").click()
        seen_at = page.evaluate("async () => await window.leaderSeen") / 1000
    took = seen_at - moved.at
    assert took < GRID_SECONDS + moved.slowest, f"{took:.2f} s behind the metadata"
    expect(page.locator(f'td.offline[data-cell="{cell}"]')).to_be_visible()
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
    # It may have been missed, and come back, where the machine is busy.
    expect(page.locator(".badge.bad")).to_have_count(0)
    expect(page.locator(".grid td.sync")).to_have_count(6)


@pytest.mark.nightly
def test_what_brokers_log_is_in_the_timeline_which_scrolls_back(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    small = {"segment.bytes": 300}
    rolling = seen.kafka.topic("rolling", config=small)
    compacting = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}
    topic = seen.kafka.topic("compacted", config=small | compacting)
    seen.open("cluster")
    expect(page.locator(".facts")).to_contain_text(re.compile(r"Controller's epoch\d"))
    for one in (rolling, topic):
        trio.run(fill_segments, seen.kafka.bootstrap, one)
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": seen.kafka.bootstrap, "group.id": "readers"}
    )
    reader.subscribe([topic])
    line = page.locator(".timeline")
    for kind, words in (
        ("roll", "another segment of"),
        ("rebalance", "group 'readers': generation 1 has 1 members"),
        ("session", "ZooKeeper session"),
        ("cleaning", f"Cleaned log {topic}-0"),
    ):
        reader.poll(0)
        expect(page.get_by_label("Kind")).to_contain_text(kind)
        page.get_by_label("Kind").select_option(kind)
        expect(line.locator("li", has_text=words).first).to_be_visible()
    reader.close()
    page.get_by_label("Kind").select_option("")
    first = line.locator("li").last.locator("span").last.inner_text()
    page.evaluate(MANY_EVENTS)
    expect(line).not_to_contain_text(first)
    page.get_by_role("button", name="Older").click()
    expect(line).to_contain_text(first)
    page.get_by_role("button", name="Newer").click()
    expect(line).not_to_contain_text(first)


# Each is told, and then refused: the node is not paused.
MANY_EVENTS = """async () => {
  const body = JSON.stringify({ command: "resume", node: "1" });
  const headers = { "content-type": "application/json" };
  const asked = { method: "POST", headers, body };
  for (let i = 0; i < 101; i += 1) await fetch("api/nodes/command", asked);
}"""


HOSTILE = "<img src=x onerror=alert(1)>"


GRID_SECONDS = 1.0
WATCH_LEADER = """([old, place]) => {
  window.leaderSeen = new Promise((seen) => {
    const look = () => {
      const leader = document.querySelector(`td.leader[data-cell^="${place}"]`);
      if (leader && leader.dataset.cell !== old) seen(Date.now());
      else setTimeout(look, 10);
    };
    look();
  });
}"""


def test_a_topic_is_made_changed_and_deleted(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    seen.open("topics")
    page.get_by_text("Create a topic").click()
    page.get_by_label("Name").fill("fresh")
    page.get_by_label("Partitions", exact=True).fill("2")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("link", name="fresh", exact=True)).to_be_visible()
    page.get_by_label("Topics that have").fill("nothing like it")
    expect(page.get_by_role("region", name="topics", exact=True)).to_contain_text(
        "no topic is like that"
    )
    page.get_by_label("Topics that have").fill("fres")
    seen.keep_picture("topics")
    page.get_by_role("link", name="fresh", exact=True).click()
    page.get_by_label("Configs that have").fill("retention.ms")
    page.get_by_role("button", name="edit retention.ms", exact=True).click()
    page.get_by_label("retention.ms", exact=True).fill("12345")
    page.get_by_role("button", name="Set").click()
    expect(page.locator("main")).to_contain_text("12345")
    page.get_by_role("button", name="retention.ms back to its default", exact=True).click()
    expect(page.locator(".badge.late", has_text="topic")).to_have_count(0)
    page.get_by_label("Partitions in all").fill("4")
    page.get_by_role("button", name="Add partitions").click()
    expect(page.locator("section").first.locator("tbody tr")).to_have_count(4)
    page.get_by_label("Before offset").fill("-1")
    page.get_by_role("button", name="Delete records").click()
    expect(page.locator("#told")).to_contain_text("the first record of fresh-0 is 0")
    page.get_by_label("Its name, to be sure").fill("fresh")
    page.get_by_role("button", name="Delete the topic").click()
    expect(page.locator("h1")).to_have_text("Topics")
    expect(page.get_by_role("link", name="fresh", exact=True)).to_have_count(0)


def test_records_are_written_found_and_shown_harmlessly(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    seen.open("messages/orders")
    write = page.locator("section", has=page.get_by_role("heading", name="Write a record"))
    write.get_by_label("Key", exact=True).fill(HOSTILE)
    write.get_by_label("no key").uncheck()
    write.get_by_label("Headers").fill('{"<b>trace</b>": "<i>1</i>"}')
    write.get_by_label("Value", exact=True).fill(
        '{"user": "ada", "html": "<script>alert(1)</script>\\u202e"}'
    )
    write.get_by_role("button", name="Write").click()
    expect(page.locator("#told")).to_contain_text("written to orders")
    write.get_by_label("Value", exact=True).fill('{"user": "bob"}')
    write.get_by_role("button", name="Write").click()
    until(lambda: any(b"bob" in (record.value or b"") for record in seen.kafka.records("orders")))
    page.get_by_label("That have the text").fill("ada")
    page.get_by_label("Where").fill("value.user == 'ada' and offset >= 0")
    page.get_by_role("button", name="Read").click()
    expect(page.locator("main tbody tr")).to_have_count(1)
    page.get_by_role("button", name="record ").click()
    expect(page.locator("main")).to_contain_text(HOSTILE)
    expect(page.locator("main")).to_contain_text("<b>trace</b>")
    for view in ("hex", "JSON", "text"):
        page.get_by_role("button", name=view, exact=True).last.click()
    assert page.locator("main img, main script, main i").count() == 0
    seen.keep_picture("messages")
    page.get_by_label("Where").fill("value.user ==")
    page.get_by_role("button", name="Read").click()
    expect(page.locator("#told")).to_contain_text("is not understood")
    page.get_by_label("Where").fill("")
    page.get_by_label("That have the text").fill("")
    page.get_by_label("follow what comes").check()
    expect(page.locator("main tbody tr")).to_have_count(2)
    trio.run(send_order, seen.kafka.bootstrap, b"while it is followed")
    expect(page.locator("main tbody")).to_contain_text("while it is followed")
    page.get_by_label("follow what comes").uncheck()


@pytest.mark.nightly
def test_values_of_schemas_and_large_ones_and_tombstones_are_shown(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    topic = seen.kafka.topic("shapes", config={"max.message.bytes": 12_000_000})
    trio.run(send_shapes, seen.kafka.bootstrap, topic)
    seen.open(f"messages/{topic}")
    write = page.locator("section", has=page.get_by_role("heading", name="Write a record"))
    write.get_by_label("Schema of the value").fill("1")
    write.get_by_label("Value", exact=True).fill('{"id": 7, "name": "by-avro"}')
    write.get_by_role("button", name="Write").click()
    expect(page.locator("#told")).to_contain_text("offset 4")
    page.get_by_label("Where").fill("value.name == 'by-avro'")
    page.get_by_role("button", name="Read").click()
    expect(page.locator("main tbody tr")).to_have_count(1)
    page.get_by_role("button", name="record ").click()
    expect(page.locator("main")).to_contain_text("by schema 1")
    page.get_by_label("Where").fill("")
    page.get_by_role("button", name="Read").click()
    rows = page.locator("main tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.nth(4)).to_contain_text("by-protobuf")
    expect(rows.nth(3)).to_contain_text("tombstone")
    rows.nth(2).get_by_role("button", name="record ").click()
    expect(page.locator("main")).to_contain_text("there is no schema 99")
    rows.nth(2).get_by_role("button", name="record ").click()
    rows.nth(1).get_by_role("button", name="record ").click()
    page.get_by_role("button", name="load all").click()
    expect(page.locator("main")).to_contain_text("part 1 of 200")
    page.get_by_role("button", name="Later part").click()
    expect(page.locator("main")).to_contain_text("part 2 of 200")
    page.get_by_role("button", name="Copy all").click()
    page.get_by_role("button", name="Earlier part").click()
    expect(page.locator("main")).to_contain_text("part 1 of 200")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="download").last.click()
    assert downloading.value.path().read_bytes() == LARGE


@pytest.mark.nightly
def test_what_became_of_transactions_is_shown(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    topic = seen.kafka.topic("booked")
    payer = transactional(seen.kafka.bootstrap, "books-1")
    for end, value in ((payer.commit_transaction, b"kept"), (payer.abort_transaction, b"not")):
        payer.begin_transaction()
        payer.produce(topic, value, b"key")
        payer.flush()
        end()
    payer.begin_transaction()
    payer.produce(topic, b"neither", b"key")
    payer.flush()
    seen.open(f"messages/{topic}")
    rows = page.locator("main tbody tr")
    expect(rows).to_have_count(5)
    states = ["open", "marker: aborted", "aborted", "marker: committed", "committed"]
    for number, state in enumerate(states):
        expect(rows.nth(number).locator(".badge")).to_have_text(state)
    seen.keep_picture("transaction-states")
    page.get_by_label("ends of transactions").uncheck()
    page.get_by_role("button", name="Read").click()
    expect(rows).to_have_count(3)
    payer.abort_transaction()


@pytest.mark.nightly
def test_a_group_is_put_elsewhere(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    commit_first(seen.kafka.bootstrap)
    seen.open("groups")
    page.get_by_role("link", name="billing").click()
    expect(page.locator("main")).to_contain_text("no members")
    seen.open("topics/orders")
    lags = page.locator("section", has=page.get_by_role("heading", name="Groups that read it"))
    expect(lags.get_by_role("row", name="billing")).to_contain_text("0: ")
    lags.get_by_role("link", name="billing").click()
    page.get_by_label("Topic").fill("orders")
    page.get_by_role("combobox", name="To", exact=True).select_option("latest")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("main")).to_contain_text("Planned changes")
    press_what_only_copies(page)
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.locator("#told")).to_contain_text("continues at these 3 offsets")
    expect(page.locator("section").first.locator(".late")).to_have_count(0)
    seen.keep_picture("group")
    page.get_by_role("button", name="Delete the group").click()
    expect(page.get_by_label("Groups that have")).to_be_visible()
    expect(page.get_by_role("link", name="billing")).to_have_count(0)


@pytest.mark.nightly
def test_transactions_are_shown_and_what_hangs_is_aborted(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    topic = seen.kafka.topic("paid", partitions=2)
    payer = transactional(seen.kafka.bootstrap, "payments-1")
    payer.begin_transaction()
    payer.produce(topic, b"open", partition=0)
    payer.flush()
    hang(seen.kafka.bootstrap, topic, 1, "forgotten")
    seen.open("transactions")
    page.get_by_label("Ids that have").fill("payments")
    page.get_by_label("only open ones").check()
    expect(page.get_by_role("link", name="payments-1")).to_be_visible()
    expect(page.get_by_role("link", name="forgotten")).to_have_count(0)
    hanging = page.locator("section", has=page.get_by_role("heading", name="Hanging"))
    hanging.get_by_label("Topic").fill(topic)
    hanging.get_by_label("Minutes without a write").fill("0")
    hanging.get_by_role("button", name="Look for them").click()

    expect(hanging.locator("tbody tr")).to_have_count(1)
    writers = page.locator("section", has=page.get_by_role("heading", name="Active producers"))
    writers.get_by_label("Topic").fill(topic)
    writers.get_by_label("Partition").fill("1")
    writers.get_by_role("button", name="Show").click()
    expect(writers.locator("tbody .late")).to_have_text("0")
    seen.keep_picture("transactions")
    page.set_viewport_size(NARROW)
    assert not is_too_wide(page)
    page.set_viewport_size(WIDE)
    press_what_only_copies(page)
    hanging.get_by_role("button", name="abort").click()
    expect(hanging).to_contain_text("no transaction is hanging")
    expect(writers.locator("tbody .late")).to_have_count(0)
    page.get_by_role("link", name="payments-1").click()
    expect(page.locator(".facts")).to_contain_text("Ongoing")
    expect(page.locator("main tbody")).to_contain_text(topic)
    press_what_only_copies(page)
    page.get_by_role("button", name="Shut out and abort").click()
    expect(page.locator(".facts")).to_contain_text("Empty")
    expect(page.locator("main tbody")).to_contain_text("nothing is open")


@pytest.mark.nightly
def test_what_a_cluster_without_security_refuses_is_said_in_a_line(seen: Seen) -> None:
    from playwright.sync_api import expect

    seen.open("security")
    refusals = seen.page.locator("p.late", has_text="cannot list")
    expect(refusals).to_have_count(2)
    expect(refusals.first).to_contain_text("SECURITY_DISABLED")
    expect(refusals.last).to_contain_text("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED")


@pytest.mark.nightly
def test_all_pages_can_be_read_by_everybody(seen: Seen) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import expect

    for theme in ("Dark", "Light"):
        for place in (
            "overview",
            "cluster",
            "topics",
            "topics/orders",
            "messages/orders",
            "groups",
            "clients",
            "transactions",
            "security",
            "plots",
        ):
            seen.open(place)
            expect(seen.page.locator("main table").first).to_be_visible()
            found = Axe().run(seen.page)
            assert found.violations_count == 0, found.generate_report()
        seen.page.get_by_role("button", name=theme).click()
    seen.page.set_viewport_size(NARROW)
    for place in ("overview", "cluster", "topics/orders", "messages/orders", "clients", "plots"):
        seen.open(place)
        expect(seen.page.locator("main table").first).to_be_visible()
        assert not is_too_wide(seen.page), f"{place} is wider than the window"
    seen.page.set_viewport_size(WIDE)


@pytest.mark.nightly
def test_the_keyboard_is_enough(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    seen.open("cluster")
    page.keyboard.press("Alt+3")
    expect(page.locator("h1")).to_have_text("Topics")
    orders = page.get_by_role("link", name="orders", exact=True)
    orders.wait_for()
    for _ in range(60):
        page.keyboard.press("Tab")
        if orders.evaluate("(link) => link === document.activeElement"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("orders")


def test_what_brokers_measure_is_plotted(seen: Seen) -> None:
    from playwright.sync_api import expect

    commit_first(seen.kafka.bootstrap)
    send_to_each(seen.kafka.bootstrap)
    seen.open("plots")
    expect(seen.page.locator("svg.plot")).to_have_count(9)
    lag = seen.page.get_by_role("img", name="Lag of groups")
    expect(lag).to_have_attribute("aria-label", re.compile(r"billing: \d"))
    half = seen.page.get_by_role("img", name="p50 latency")
    # Those that lead nothing since the failover have no line.
    expect(half).to_have_attribute("aria-label", re.compile(r"broker \d: [\d.]+"))
    seen.page.get_by_label("Latency of").select_option("Metadata")
    expect(half).to_have_attribute("aria-label", re.compile(r"broker \d: [\d.]+"))
    expect(seen.page.get_by_role("region", name="stages")).to_contain_text("Produce")
    seen.keep_picture("plots")
    seen.open("topics/orders")
    expect(seen.page.locator("main table").first).to_contain_text("1: ")


def test_the_first_page_shows_health_throughput_and_lag(seen: Seen) -> None:
    from playwright.sync_api import expect

    commit_first(seen.kafka.bootstrap)
    send_to_each(seen.kafka.bootstrap)
    seen.open("")
    expect(seen.page.locator("h1")).to_have_text("Overview")
    expect(seen.page.locator(".health")).to_contain_text("Healthy")
    for title in ("Records in", "Bytes in", "Lag of groups"):
        stat = seen.page.locator(".stat", has_text=title)
        expect(stat.locator("b")).to_have_text(re.compile(r"^[\d.,]+"))
        expect(stat.locator("svg.spark")).to_be_visible()
    lagging = seen.page.locator("section", has_text="Groups that lag")
    expect(lagging.get_by_role("row", name="billing")).to_be_visible()
    seen.keep_picture("overview")
    with seen.kafka.pause(3):
        expect(seen.page.locator(".health")).to_contain_text("broker 3 is paused")
    expect(seen.page.locator(".health")).to_contain_text("Healthy")


@pytest.mark.nightly
def test_tables_are_sorted_by_their_heads(seen: Seen) -> None:
    from playwright.sync_api import expect

    for name, partitions in (("sorted-a", 2), ("sorted-b", 10), ("sorted-c", 1)):
        seen.kafka.topic(name, partitions=partitions)
    seen.open("topics")
    page = seen.page
    page.get_by_label("Topics that have").fill("sorted-")
    names = page.get_by_role("region", name="topics", exact=True).locator("tbody td:first-child")
    expect(names).to_have_count(3)
    head = page.get_by_role("columnheader", name="Partitions")
    for order, expected in (("descending", "bac"), ("ascending", "cab")):
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", order)
        expect(names).to_have_text([re.compile(f"sorted-{letter}") for letter in expected])
    page.get_by_label("Topics that have").fill("")
    folded = page.locator("details", has_text="Internal topics")
    expect(folded.get_by_text("__consumer_offsets")).to_be_hidden()
    folded.locator("summary").click()
    expect(folded.get_by_text("__consumer_offsets")).to_be_visible()


@pytest.mark.nightly
def test_plots_tell_values_under_the_pointer(seen: Seen) -> None:
    from playwright.sync_api import expect

    page = seen.page
    seen.open("plots")
    plot = page.get_by_role("img", name="Memory")
    expect(plot).to_have_attribute("aria-label", re.compile(r"broker 1: [\d.]+ MB"))
    page.get_by_text("1 min", exact=True).click()
    plot.hover(position={"x": 300, "y": 60})
    values = page.locator(".chart", has=plot).locator(".values")
    expect(values).to_contain_text(re.compile(r"\d\d:\d\d:\d\d.*broker 1"))
    page.mouse.move(0, 0)
    expect(values).to_be_hidden()


@pytest.mark.nightly
def test_clients_are_listed_with_their_software(seen: Seen) -> None:
    from playwright.sync_api import expect

    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": seen.kafka.bootstrap, "group.id": "g", "client.id": "till-7"}
    )
    reader.list_topics(timeout=60)
    seen.open("clients")
    seen.page.get_by_label("Clients that have").fill("till-7")
    row = seen.page.get_by_role("region", name="clients").locator("tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("rdkafka")
    expect(row).to_contain_text(confluent_kafka.version()[0])
    expect(seen.page.locator("main")).to_contain_text("No client pushes metrics")
    reader.close()


@pytest.mark.nightly
def test_a_search_goes_on_until_all_is_looked_at(seen: Seen) -> None:
    """74 of 3000 records match, most of them far from the end where the search begins."""
    from playwright.sync_api import expect

    page, topic = seen.page, seen.kafka.topic("searched")
    values = (f"{'needle' if n < 70 or n % 1000 == 0 else 'hay'} {n}" for n in range(1, 3001))
    seen.kafka.produce(topic, *values, partition=0)
    seen.open(f"messages/{topic}")
    page.get_by_label("At most").fill("100")
    page.get_by_label("That have the text").fill("needle")
    page.get_by_role("button", name="Read").click()
    status = page.get_by_role("status").filter(has_text="looked at")
    expect(status).to_contain_text("72 records shown, 3,000 looked at; this is the beginning")
    expect(page.locator("main tbody tr")).to_have_count(72)
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_hidden()
    page.get_by_label("At most").fill("2")
    page.get_by_role("button", name="Read").click()
    expect(status).to_contain_text("there may be earlier ones")
    expect(page.locator("main tbody tr")).to_have_count(2)
    expect(page.locator("main tbody")).to_contain_text("needle 3000")
    page.get_by_label("From").select_option("beginning")
    page.get_by_label("At most").fill("100")
    page.get_by_role("button", name="Read").click()
    expect(status).to_contain_text("72 records shown, 3,000 looked at; this is the end")

    def answer_late(route: Any) -> None:
        time.sleep(0.5)
        route.continue_()

    page.route("**/api/messages?*", answer_late)
    page.get_by_label("From").select_option("end")
    page.get_by_label("At most").fill("1")
    page.get_by_label("That have the text").fill("no record has it")
    page.get_by_role("button", name="Read").click()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(status).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_hidden()
    page.unroute("**/api/messages?*")


@pytest.mark.nightly
def test_a_read_that_ended_early_goes_on(seen: Seen) -> None:
    """As one of a slow broker does after some seconds, with what it has found."""
    from playwright.sync_api import expect

    page, topic = seen.page, seen.kafka.topic("read-slowly")
    seen.kafka.produce(topic, *(str(number) for number in range(30)), partition=0)
    seen.open(f"messages/{topic}")
    page.get_by_label("From").select_option("beginning")
    page.get_by_label("At most").fill("25")
    cut: list[object] = []

    def answer_in_part(route: Any) -> None:
        answer = route.fetch()
        found = answer.json()
        if not cut:
            cut.append(found)
            found |= {"records": found["records"][:10], "positions": {"0": 10}, "scanned": 10}
        route.fulfill(response=answer, json=found)

    page.route("**/api/messages?*", answer_in_part)
    page.get_by_role("button", name="Read").click()
    expect(page.get_by_role("status").filter(has_text="looked at")).to_contain_text(
        re.compile("^25 records shown")
    )
    expect(page.locator("main tbody tr")).to_have_count(25)
    assert cut
    page.unroute("**/api/messages?*")


TOPICS, RECORDS = 1000, 100_000
STEP_CPU_MS = 2000  # 766 is the most that was seen


@pytest.mark.nightly
def test_many_topics_and_records_do_not_freeze_the_page(seen: Seen) -> None:
    """No step of a reader takes the page long, all its tasks together, also those it waits in."""
    from playwright.sync_api import expect

    page = seen.page
    topic = seen.kafka.topic("many-records")
    trio.run(make_many, seen.kafka.bootstrap, topic, TOPICS, RECORDS)
    grid = page.locator("section", has=page.get_by_role("heading", name="Partitions and brokers"))
    rows = page.locator("main tbody tr")

    def look_at_the_grid() -> None:
        seen.open("cluster")
        expect(grid).to_contain_text(f"{TOPICS:,}"[:2])

    def turn_its_pages() -> None:
        grid.get_by_role("button", name="Next").click()
        grid.get_by_role("button", name="Previous").click()

    def filter_it() -> None:
        grid.get_by_label("Topics that have").fill("many-0999")
        expect(grid.locator("tbody tr")).to_have_count(1)

    def look_at_topics() -> None:
        seen.open("topics")
        page.get_by_label("Topics that have").fill("many-0")
        expect(page.locator("main")).to_contain_text("1,000 topics")

    def turn_their_pages() -> None:
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_role("link", name="many-0150", exact=True)).to_be_visible()
        page.get_by_role("button", name="Previous").click()
        expect(page.get_by_role("link", name="many-0000", exact=True)).to_be_visible()

    def read_records() -> None:
        seen.open(f"messages/{topic}")
        page.get_by_label("From").select_option("beginning")
        page.get_by_label("At most").fill("500")
        page.get_by_role("button", name="Read").click()
        expect(rows).to_have_count(500)

    def read_more() -> None:
        page.get_by_role("button", name="Load more").click()
        expect(rows).to_have_count(1000)

    def search() -> None:
        page.get_by_label("That have the text").fill(f"record {RECORDS - 1}.")
        page.get_by_role("button", name="Read").click()
        expect(rows).to_have_count(1)

    clock, took = PageClock(page), {}
    for step in (
        look_at_the_grid,
        turn_its_pages,
        filter_it,
        look_at_topics,
        turn_their_pages,
        read_records,
        read_more,
        search,
    ):
        began = clock.cpu_ms()
        step()
        took[step.__name__] = round(clock.cpu_ms() - began)
    assert max(took.values()) < STEP_CPU_MS, took


@pytest.mark.nightly
def test_every_button_was_pressed(seen: Seen, request: pytest.FixtureRequest) -> None:
    """By this test or another of this file; the pages Security and Inside have files of theirs."""
    skip_unless_whole(request)
    commit_first(seen.kafka.bootstrap)
    pages = ("overview", "cluster", "topics", "messages", "groups", "clients", "transactions")
    parts = ("topics/orders", "messages/orders", "groups/billing", "transactions/books-1")
    for place in (*pages, *parts, "plots"):
        seen.open(place)
        press_what_only_copies(seen.page)
    left = never_pressed(seen.page, "above", *pages, "plots")
    assert not left, "\n".join(left)
