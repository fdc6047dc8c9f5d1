"""`pybroker transactions list|describe|find-hanging|abort|fence`, and `pybroker producers`.

Mirrors: kafka-transactions.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ..client.admin.rows import place_text, producer_row, transaction_row, transaction_rows
from ..storage.retention import age_text
from .completion import (
    complete_topics,
    complete_transactional_ids,
    optional_places,
    places_argument,
)
from .options import UserError
from .places import find_places, parse_place
from .target import Row, Target, cluster_options

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.admin.results import Results
    from ..client.admin.transactions import ActiveProducer
    from ..protocol.topics import TopicPartition

MAX_TIMEOUT_MINUTES = 15  # transaction.max.timeout.ms, unless the brokers have another
MINUTE_MS = 60_000


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def transactions() -> None:
    """Transactions: list and describe them, find hanging ones and abort them.

    \b
    pybroker transactions list --state Ongoing
    pybroker transactions describe payments-1
    pybroker transactions find-hanging flights
    pybroker transactions abort flights:0 --first-offset 42
    """


@transactions.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    help="Only ids in this state, for example Ongoing, Empty or CompleteCommit.",
)
@click.option(
    "--producer-id",
    "ids",
    multiple=True,
    type=int,
    metavar="ID",
    help="Only this producer id; may be repeated.",
)
@click.option(
    "--longer-than",
    type=click.IntRange(0),
    metavar="MS",
    help="Only transactions that have been open for longer than this.",
)
@cluster_options
def list_command(
    target: Target, states: tuple[str, ...], ids: tuple[int, ...], longer_than: int | None
) -> None:
    """Show the transactional ids and the state of each."""
    found = target.ask(
        lambda admin: admin.transactions.list(
            states=states,
            producer_ids=ids,
            longer_than_ms=-1 if longer_than is None else longer_than,
        )
    )
    target.show_found(transaction_rows(found), found.errors, "there are no transactions")


@transactions.command()
@click.argument(
    "ids",
    nargs=-1,
    required=True,
    metavar="TRANSACTIONAL_ID...",
    shell_complete=complete_transactional_ids,
)
@cluster_options
def describe(target: Target, ids: tuple[str, ...]) -> None:
    """Show the open transaction of each transactional id: its start and its partitions."""
    found = target.ask(lambda admin: admin.transactions.describe(ids))
    target.show_found([transaction_row(one) for one in found.values.values()], found.errors)


@transactions.command("find-hanging")
@optional_places
@click.option(
    "--minutes",
    type=click.FloatRange(0),
    default=MAX_TIMEOUT_MINUTES,
    show_default=True,
    help="Minutes without a write; at least the brokers' transaction.max.timeout.ms.",
)
@cluster_options
def find_hanging(target: Target, places: tuple[str, ...], minutes: float) -> None:
    """Show transactions that are open in a partition but unknown to every coordinator.

    Consumers with read_committed never get past them; pybroker transactions abort ends them.
    """

    now_ms = int(time.time() * 1000)

    async def work(admin: Admin) -> list[tuple[TopicPartition, ActiveProducer]]:
        wanted = await find_places(admin, places)
        before_ms = now_ms - int(minutes * MINUTE_MS)
        return await admin.transactions.find_hanging(wanted, before_ms=before_ms)

    rows: list[Row] = [
        {
            "partition": place_text(place),
            "first_offset": one.first_offset,
            "producer_id": one.producer_id,
            "epoch": one.producer_epoch,
            "silent_for": age_text(now_ms - one.last_timestamp_ms),
        }
        for place, one in target.ask(work)
    ]
    target.show(rows, "no transaction is hanging")


@transactions.command()
@click.argument("place", metavar="TOPIC:PARTITION", shell_complete=complete_topics)
@click.option(
    "--first-offset",
    type=click.IntRange(0),
    required=True,
    metavar="OFFSET",
    help="First offset of the transaction.",
)
@cluster_options
def abort(target: Target, place: str, first_offset: int) -> None:
    """Abort the hanging transaction that begins at an offset of a partition.

    Use it only for a transaction that find-hanging has shown: the coordinator does not notice this
    abort.
    """

    _, numbers = parse_place(place)
    if numbers is None or len(numbers) != 1:
        raise UserError(f"{place!r} is not TOPIC:PARTITION")

    async def work(admin: Admin) -> tuple[TopicPartition, ActiveProducer]:
        api = admin.transactions
        (wanted,) = await find_places(admin, [place])
        producer = await api.open_at(wanted, first_offset)
        if producer is not None:
            await api.abort(wanted, producer)
            return wanted, producer
        raise UserError(
            f"no transaction that is open in {place_text(wanted)} begins at offset {first_offset}; "
            f"see: pybroker producers {place}"
        )

    aborted, producer = target.ask(work)
    target.report(
        f"aborted the transaction of producer {producer.producer_id} in {place_text(aborted)}",
        {"partition": place_text(aborted), "producer_id": producer.producer_id, "aborted": True},
    )


@transactions.command()
@click.argument(
    "ids",
    nargs=-1,
    required=True,
    metavar="TRANSACTIONAL_ID...",
    shell_complete=complete_transactional_ids,
)
@cluster_options
def fence(target: Target, ids: tuple[str, ...]) -> None:
    """Fence the present producers with these ids and abort their open transactions."""
    found = target.ask(lambda admin: admin.transactions.fence(ids))
    target.show_found(
        [
            {"transactional_id": name, "producer_id": made[0], "epoch": made[1], "fenced": True}
            for name, made in found.values.items()
        ],
        found.errors,
    )


@click.command(epilog="Example:  pybroker producers flights:0")
@places_argument
@cluster_options
def producers(target: Target, places: tuple[str, ...]) -> None:
    """Show the idempotent and transactional producers of partitions and their open transactions."""

    async def work(
        admin: Admin,
    ) -> Results[TopicPartition, tuple[ActiveProducer, ...]]:
        return await admin.transactions.producers(await find_places(admin, places))

    found = target.ask(work)
    rows = [
        producer_row(place, one) for place, some in sorted(found.values.items()) for one in some
    ]
    target.show_found(rows, found.errors, "no producer with an id has written to it")
