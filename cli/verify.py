"""`pybroker verify`: write records, and check that each comes back once, whole and in order.

Every record has a number, the run's own name and a checksum. Under any fault of the cluster
meanwhile, acknowledged records must come back; others may. A record that comes twice is one too
many, since the producer is idempotent.
"""

from __future__ import annotations

import functools
import time
import zlib
from typing import TYPE_CHECKING, Any

import click
import trio

from .interrupt import Interrupt, run_interruptible
from .load_options import load_options, rate_option
from .meter import Meter
from .options import UserError
from .places import find_places
from .target import Target, cluster_options, report

if TYPE_CHECKING:
    from ..client.consumer.consumer import Consumer
    from ..client.producer import Producer

EXIT_STATUS_FAULTS = 1
AHEAD_RECORDS = 10_000  # sent and not acknowledged yet
POLL_SECONDS = 0.5
SHOWN = 10


class Ledger:
    """The acknowledged and the read records, by their numbers; pure."""

    def __init__(self, run: bytes) -> None:
        self._run = run
        self.acknowledged: set[int] = set()
        self.read: set[int] = set()
        self.faults: list[str] = []
        self.strangers = 0
        self.is_written = False  # nothing more will be
        self._last: dict[int, int] = {}

    def value(self, number: int, size: int) -> bytes:
        """The value of a record: the run, its number and a checksum, filled up to a size."""
        head = b"%s:%d:" % (self._run, number)
        body = head + b"." * max(size - len(head) - 9, 0)
        return b"%s:%08x" % (body, zlib.crc32(body))

    def take(self, partition: int, offset: int, value: bytes | None) -> None:
        """A record that came back."""
        if value is None or not value.startswith(self._run + b":"):
            self.strangers += 1
            return
        where = f"partition {partition}, offset {offset}"
        body, _, checksum = value.rpartition(b":")
        number_text = body[len(self._run) + 1 :].partition(b":")[0]
        if b"%08x" % zlib.crc32(body) != checksum or not number_text.isdigit():
            self.faults.append(f"damaged: {where}")
            return
        number = int(number_text)
        if number in self.read:
            self.faults.append(f"twice: record {number}, {where}")
        elif number < self._last.get(partition, -1):
            self.faults.append(f"out of order: record {number}, {where}")
        self.read.add(number)
        self._last[partition] = max(number, self._last.get(partition, -1))

    @property
    def is_complete(self) -> bool:
        """Whether all is read; called after each poll, so that False is quick."""
        return self.acknowledged <= self.read

    def missing(self) -> list[int]:
        """Acknowledged, and not read."""
        return sorted(self.acknowledged - self.read)


@click.command(
    epilog="""\b
Examples:
  pybroker verify flights
  pybroker verify flights --records 100000 --rate 1000
"""
)
@load_options(10_000)
@rate_option
@click.option(
    "--patience", default=60.0, show_default=True, help="Seconds to wait for the last records."
)
@cluster_options
def verify(
    target: Target, topic: str, records: int, size: int, rate: float | None, patience: float
) -> None:
    """Write records to TOPIC and check that each comes back once; exit status 1 if not.

    The topic may have other records and other producers. Ctrl-C stops the writing; the records
    written so far are still checked.
    """
    ledger = Ledger(b"v%x" % time.time_ns())
    meter = Meter(time.monotonic(), total=records, is_shown=not target.as_json)
    failed: list[str] = []

    async def run(interrupt: Interrupt) -> None:
        async with (
            target.opened() as admin,
            target.consumer() as consumer,
            target.producer() as producer,
        ):
            await producer.prepare(topic)
            await consumer.assign(await find_places(admin, [topic]))
            await consumer.seek_to_end()
            with trio.move_on_after(patience):
                while any(consumer.position(place) is None for place in consumer.assignment):
                    await consumer.poll(POLL_SECONDS)
            async with trio.open_nursery() as nursery:
                news = trio.Event()
                nursery.start_soon(_read, consumer, ledger, news)
                await _write(
                    producer, interrupt, topic, ledger, meter, failed,
                    records=records, size=size, rate=rate,
                )  # fmt: skip
                ledger.is_written = True
                with trio.move_on_after(patience):
                    await news.wait()
                nursery.cancel_scope.cancel()

    run_interruptible(run)
    meter.close()
    missing = ledger.missing()
    found = {
        "acknowledged": len(ledger.acknowledged),
        "read": len(ledger.read),
        "failed": len(failed),
        "missing": len(missing),
        "faults": ledger.faults[:SHOWN],
    }
    is_good = not missing and not ledger.faults
    target.report(
        f"{len(ledger.acknowledged):,} records acknowledged, {len(ledger.read):,} read, "
        f"{len(failed):,} refused: {'every one came back once' if is_good else 'NOT right'}",
        found,
    )
    for fault in [*(f"missing: record {number}" for number in missing), *ledger.faults][:SHOWN]:
        report(fault)
    if failed:
        report(f"refused: {failed[0]}")
    if not is_good:
        click.get_current_context().exit(EXIT_STATUS_FAULTS)
    if not ledger.acknowledged:
        raise UserError("nothing was written")


async def _read(consumer: Consumer, ledger: Ledger, all_there: trio.Event) -> None:
    """Read for ever; sets `all_there` once all records are read after the last was written."""
    while True:
        for one in await consumer.poll(POLL_SECONDS, AHEAD_RECORDS):
            ledger.take(one.partition, one.offset, one.value)
        if ledger.is_written and ledger.is_complete:
            all_there.set()


async def _write(
    producer: Producer,
    interrupt: Interrupt,
    topic: str,
    ledger: Ledger,
    meter: Meter,
    failed: list[str],
    *,
    records: int,
    size: int,
    rate: float | None,
) -> None:
    """Write records, and note in the ledger whether each is acknowledged or failed."""
    room = trio.CapacityLimiter(AHEAD_RECORDS)
    began = time.monotonic()

    async def follow(delivery: Any, number: int) -> None:
        from ..client.errors import ClientError

        try:
            await delivery.wait()
        except ClientError as error:
            failed.append(str(error))
        else:
            ledger.acknowledged.add(number)
        room.release_on_behalf_of(number)
        meter.add(1, size, time.monotonic())

    async with trio.open_nursery() as nursery:
        for number in range(records):
            if interrupt.is_told:
                break
            if rate is not None:
                ahead = began + number / rate - time.monotonic()
                if ahead > 0:
                    await interrupt.unless_told(functools.partial(trio.sleep, ahead))
            await room.acquire_on_behalf_of(number)
            delivery = await producer.enqueue(topic, ledger.value(number, size))
            nursery.start_soon(follow, delivery, number)
