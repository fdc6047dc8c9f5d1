"""`pybroker perf produce|consume|e2e|groups`: how fast a cluster is, in the units of Kafka's tools.

MB are 1,048,576 bytes and latencies go from a call to its acknowledgement, as there. The results
include this client's own speed: it runs on one core.
Mirrors: kafka-producer-perf-test, kafka-consumer-perf-test and kafka-e2e-latency.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import trio

from ..protocol.records.compression import Compression
from .completion import complete_groups, complete_topics
from .interrupt import Interrupt, run_interruptible
from .latencies import Latencies
from .load_options import load_options, rate_option
from .options import UserError
from .perf_series import MEGABYTE, Series, check_plot
from .target import Target, cluster_options, report, show_rows

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.consumer.consumer import Consumer
    from ..client.producer import Delivery, Producer

POLL_SECONDS = 0.5
SILENCE_SECONDS = 10.0  # a consumer that waits for more records than there are
READ_SECONDS = 30.0  # for one record of e2e
MAX_MEMBERS = 500


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def perf() -> None:
    """Measure the speed of a cluster: produce, consume, end to end, groups.

    \b
    pybroker perf produce flights --records 1000000 --size 100
    pybroker perf produce flights --records 10000 --rate 500 --plot latency.png
    pybroker perf consume flights --records 1000000
    pybroker perf e2e flights --records 1000
    pybroker perf groups flights --members 20
    """


plot_option = click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE",
    help="Draw rate and latency over time to FILE (.png or .svg); needs matplotlib.",
)


@perf.command()
@load_options(100_000)
@rate_option
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option(
    "--compression",
    default="none",
    show_default=True,
    type=click.Choice([codec.name.lower() for codec in Compression]),
)
@click.option("--batch-size", type=click.IntRange(0), default=65_536, show_default=True)
@click.option("--linger-ms", type=click.IntRange(0), default=5, show_default=True)
@click.option("--transactional-id", metavar="ID", help="Write all records in one transaction.")
@plot_option
@cluster_options
def produce(
    target: Target,
    topic: str,
    records: int,
    size: int,
    rate: float | None,
    acks: str,
    compression: str,
    batch_size: int,
    linger_ms: int,
    transactional_id: str | None,
    plot: Path | None,
) -> None:
    """Write records of random bytes and show the rate and the latencies."""
    check_plot(plot)
    if acks != "all" and transactional_id is not None:
        raise UserError("a transaction takes --acks all")
    series = Series(time.monotonic(), records, is_shown=not target.as_json)
    settings: dict[str, Any] = {
        "acks": acks if acks == "all" else int(acks),
        "idempotence": None if acks == "all" else False,
        "compression": compression,
        "batch_size": batch_size,
        "linger_ms": linger_ms,
        "transactional_id": transactional_id,
    }

    async def run(interrupt: Interrupt) -> None:
        async with target.producer(**settings) as producer:
            await interrupt.unless_told(functools.partial(producer.prepare, topic))
            series.start(time.monotonic())
            if transactional_id is not None:
                producer.begin_transaction()
            async with trio.open_nursery() as nursery:
                load = _Load(producer, nursery, series)
                await load.run(interrupt, topic, records, size, rate)
                await producer.flush()
            if transactional_id is not None:
                await producer.commit_transaction()

    run_interruptible(run)
    _show(target, series, "written", plot)


class _Load:
    """Records at a rate, each timed from `enqueue` until its batch is acknowledged."""

    def __init__(self, producer: Producer, nursery: trio.Nursery, series: Series) -> None:
        self._producer, self._nursery, self._series = producer, nursery, series
        self._batches: dict[int, list[float]] = {}

    async def run(
        self, interrupt: Interrupt, topic: str, records: int, size: int, rate: float | None
    ) -> None:
        value = os.urandom(size)
        began = time.monotonic()
        for number in range(records):
            if interrupt.is_told:
                return
            if rate is not None:
                ahead = began + number / rate - time.monotonic()
                if ahead > 0:
                    await interrupt.unless_told(functools.partial(trio.sleep, ahead))
            sent = time.monotonic()
            delivery = await self._producer.enqueue(topic, value)
            batch = id(delivery.current_batch)
            times = self._batches.get(batch)
            if times is None:
                self._batches[batch] = [sent]
                self._nursery.start_soon(self._wait, delivery, batch, size)
            else:
                times.append(sent)

    async def _wait(self, delivery: Delivery, batch: int, size: int) -> None:
        """Wait for a batch: all its records are acknowledged at once. Raises ClientError."""
        holder = delivery.current_batch  # it stays, and so does its id
        await delivery.wait()
        now = time.monotonic()
        times = self._batches.pop(batch)
        for sent in times:
            self._series.latencies.add(now - sent)
        self._series.add(len(times), len(times) * size, now)
        del holder


@perf.command()
@click.argument(
    "topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics
)
@click.option(
    "--records",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="Number of records.",
)
@click.option(
    "--group",
    metavar="NAME",
    help="Read as a member of this group. Default: read all partitions, without commits.",
    shell_complete=complete_groups,
)
@plot_option
@cluster_options
def consume(
    target: Target, topics: tuple[str, ...], records: int, group: str | None, plot: Path | None
) -> None:
    """Read records from the beginning and show the rate; stop early if no more arrive."""
    from .places import find_places

    check_plot(plot)
    series = Series(time.monotonic(), records, is_shown=not target.as_json)

    async def run(interrupt: Interrupt) -> None:
        async with (
            target.opened() as admin,
            target.consumer(group_id=group, auto_offset_reset="earliest") as consumer,
        ):
            places = await find_places(admin, topics)
            if group is None:
                await consumer.assign(places)
                await consumer.seek_to_beginning()
            else:
                await consumer.subscribe(topics)
            series.start(time.monotonic())
            await interrupt.unless_told(functools.partial(_read, consumer, series, records))

    run_interruptible(run)
    _show(target, series, "read", plot)


async def _read(consumer: Consumer, series: Series, records: int) -> None:
    """Read so many records, or until none comes for a while."""
    batches = consumer.batches()
    while series.meter.records < records:
        with trio.move_on_after(SILENCE_SECONDS) as limit:
            batch = await anext(batches)
            size = sum(len(value) for value in batch.values() if value is not None)
            series.add(len(batch), size, time.monotonic())
        if limit.cancelled_caught:
            return


@perf.command()
@load_options(1000)
@plot_option
@cluster_options
def e2e(target: Target, topic: str, records: int, size: int, plot: Path | None) -> None:
    """Measure end-to-end latency: write one record at a time and wait until it is read."""
    from .places import find_places

    check_plot(plot)
    series = Series(time.monotonic(), records, is_shown=not target.as_json)

    async def run(interrupt: Interrupt) -> None:
        async with (
            target.opened() as admin,
            target.producer(linger_ms=0) as producer,
            target.consumer(fetch_max_wait_seconds=0.1) as consumer,
        ):
            await producer.prepare(topic)
            await consumer.assign(await find_places(admin, [topic]))
            await consumer.seek_to_end()
            while any(consumer.position(place) is None for place in consumer.assignment):
                await consumer.poll(0.1)
            series.start(time.monotonic())
            for _ in range(records):
                if interrupt.is_told:
                    return
                value = os.urandom(size)
                sent = time.monotonic()
                await producer.send(topic, value)
                with trio.fail_after(READ_SECONDS):
                    while not await consumer.poll(POLL_SECONDS, 1):
                        pass
                now = time.monotonic()
                series.latencies.add(now - sent)
                series.add(1, size, now)

    with _too_slow(f"a record was written, but not read after {READ_SECONDS:.0f} s"):
        run_interruptible(run)
    _show(target, series, "written and read", plot)


@contextlib.contextmanager
def _too_slow(message: str) -> Any:
    try:
        yield
    except trio.TooSlowError:
        raise UserError(message) from None


@perf.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--members",
    type=click.IntRange(1, MAX_MEMBERS),
    default=10,
    show_default=True,
    help="Number of members.",
)
@click.option(
    "--commits",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    help="Commits of each member.",
)
@click.option(
    "--group", default="pybroker-perf", show_default=True, metavar="NAME", help="Name of the group."
)
@cluster_options
def groups(target: Target, topic: str, members: int, commits: int, group: str) -> None:
    """Start a consumer group, and show how long its joins and commits take."""
    from .places import find_places

    joining, committing = Latencies(), Latencies()

    async def work(admin: Admin) -> None:
        places = set(await find_places(admin, [topic]))
        began = trio.current_time()
        assigned: dict[int, set[Any]] = {}
        all_there = trio.Event()

        async def be_member(number: int) -> None:
            async with target.consumer(group_id=group, auto_commit=False) as consumer:
                await consumer.subscribe([topic])
                while not all_there.is_set():
                    await consumer.poll(0.05)
                    assigned[number] = set(consumer.assignment)
                    owned = sum(len(some) for some in assigned.values())
                    is_whole = set().union(*assigned.values()) == places and owned == len(places)
                    busy = sum(bool(some) for some in assigned.values())
                    if is_whole and busy == min(members, len(places)):
                        all_there.set()
                joining.add(trio.current_time() - began)
                mine = dict.fromkeys(consumer.assignment, 0)
                for _ in range(commits if mine else 0):
                    sent = trio.current_time()
                    await consumer.commit(mine)
                    committing.add(trio.current_time() - sent)

        with trio.fail_after(READ_SECONDS + members):
            async with trio.open_nursery() as nursery:
                for number in range(members):
                    nursery.start_soon(be_member, number)

    with _too_slow(f"the group {group!r} is not stable after {READ_SECONDS + members:.0f} s"):
        target.ask(work)
    target.show(
        [
            {"what": "joined", "count": joining.count, **joining.row_ms()},
            {"what": "commits", "count": committing.count, **committing.row_ms()},
        ]
    )


def _show(target: Target, series: Series, word: str, plot: Path | None) -> None:
    """The result as JSON or a table, and drawn if that is wanted."""
    series.meter.close()
    row = series.row()
    if target.as_json:
        target.show([row])
    else:
        click.echo(
            f"{series.meter.records:,} records {word}, {row['records_per_s']:,.1f} records/s "
            f"({series.byte_rate() / MEGABYTE:,.2f} MB/s)"
        )
        if series.latencies.count:
            show_rows([series.latencies.row_ms()])
    if plot is not None:
        series.plot(plot)
        report(f"drew {plot}")
