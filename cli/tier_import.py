"""`pybroker tier import`: topics are brought back out of nothing but the remote store.

The steps: list the store; read the ends of each segment (`replication.remote.importing`); write the
metadata that the lost cluster had of them; create each topic with the id and behind the leader
epochs that it had (`replication.controller.topic_import`). Its leaders then begin behind the tier.

Invariants: nothing is written before all has been read and can be imported; nothing in the store is
changed; a second run after one that was cut off goes on, and writes what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import click
import trio

from .options import UserError, echo, parse_overrides, run_client
from .target import Row, Target, cluster_options
from .tier_store import READERS, StoreOptions, metadata_of, store_options

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..replication.remote.importing import Described, Lineup, StoredSegment
    from ..storage.producer_entry import ProducerEntry
    from ..storage.remote.segments import RemoteLogSegmentMetadata
    from ..storage.remote.storage_manager import RemoteStorageManager

LOOK_EVERY_SECONDS: Final = 0.2
LEADERS_SECONDS: Final = 60.0
# What keeps the only copy of the records, until somebody says otherwise.
KEPT: Final = {"retention.ms": "-1", "retention.bytes": "-1"}


class _Topic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: dict[int, Lineup]


@click.command(
    "import",
    epilog="""\b
Examples:
  pybroker tier import --tier s3://history/prod --dry-run
  pybroker tier import flights --tier /mnt/tier --replication-factor 3
""",
)
@click.argument("topics", nargs=-1)
@store_options
@click.option("--partitions", type=click.IntRange(min=1), help="Default: those of the store.")
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1, max=2**15 - 1),
    metavar="N",
    help="Replicas of each partition. Default: the brokers' default.replication.factor.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    callback=parse_overrides,
    metavar="KEY=VALUE",
    help="A topic config; may be repeated. Without retention.ms and retention.bytes all is kept.",
)
@click.option("--topic-id", metavar="ID", help="Which one, if the store has several of the name.")
@click.option("--skip-holes", is_flag=True, help="Import although offsets in between are missing.")
@click.option("--dry-run", is_flag=True, help="Only read the store, and show what it has.")
@cluster_options
def import_tier(
    target: Target,
    topics: tuple[str, ...],
    store: StoreOptions,
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    topic_id: str | None,
    skip_holes: bool,
    dry_run: bool,
) -> None:
    """Bring TOPICS back out of the store alone; all that it has unless some are named.

    For a cluster that was lost with its disks: the new one must have the store as its remote tier.
    Records that were never copied are lost.
    """
    from ..storage.remote.storage_manager import RemoteStorageError

    manager = store.open()
    try:
        found, rows = _read_store(manager, topics, topic_id)
    except RemoteStorageError as error:
        raise UserError(f"the store does not answer: {error}") from error
    finally:
        manager.close()
    if not found:
        raise UserError("the store has no segments of such topics" if topics else "there are none")
    if dry_run:
        target.show(rows)
        return
    _check_holes(found, skip_holes)
    _check_partitions(found, partitions)
    known = metadata_of(target, [one.name for one in found])
    run_client(
        partial(_import, target, found, known, partitions, replication_factor or -1, configs)
    )
    target.show(rows)


# The store


def _read_store(
    manager: RemoteStorageManager, topics: Sequence[str], topic_id: str | None
) -> tuple[list[_Topic], list[Row]]:
    """The topics, and a row for each partition. RemoteStorageError, UserError."""
    from ..replication.remote.importing import line_up, open_transactions, stored_segments
    from ..storage.remote.audit import RemoteStorageInventory

    if not isinstance(manager, RemoteStorageInventory):
        raise UserError("this storage manager cannot list what it has: it lacks stored_files")
    files = [one for one in manager.stored_files() if not isinstance(one, str)]
    whole, parts = stored_segments(files, topics)
    for segment_id in parts:
        echo(f"left out: segment {segment_id} is not complete", err=True)
    described = _describe_all(manager, whole)
    by_topic = _by_topic(described, topic_id)
    found, rows = [], []
    for (name, id_), ones in sorted(by_topic.items()):
        partitions: dict[int, list[Described]] = {}
        for one in ones:
            partitions.setdefault(one.metadata.topic_id_partition.partition, []).append(one)
        topic = _Topic(name, id_, {at: line_up(partitions[at]) for at in sorted(partitions)})
        found.append(topic)
        rows += [
            _row(lineup, open_transactions(manager, lineup.segments[-1]))
            for lineup in topic.partitions.values()
        ]
    return found, rows


def _describe_all(
    manager: RemoteStorageManager, stored: Iterable[StoredSegment]
) -> list[Described]:
    from ..replication.remote.importing import DamagedSegment, describe

    wall_ms = time.time_ns() // 1_000_000

    def look(one: StoredSegment) -> Described | str:
        try:
            return describe(manager, one, wall_ms)
        except DamagedSegment as error:
            return f"left out: segment {one.segment_id}: {error}"

    found = []
    with ThreadPoolExecutor(READERS) as threads:
        for one in threads.map(look, stored):
            if isinstance(one, str):
                echo(one, err=True)
            else:
                found.append(one)
    return found


def _by_topic(
    described: Iterable[Described], topic_id: str | None
) -> dict[tuple[str, bytes], list[Described]]:
    """By name and id, one id a name. UserError if the choice is the user's."""
    from ..protocol.uuids import uuid_to_text

    found: dict[tuple[str, bytes], list[Described]] = {}
    for one in described:
        place = one.metadata.topic_id_partition
        if topic_id is None or uuid_to_text(place.topic_id) == topic_id:
            found.setdefault((place.topic, place.topic_id), []).append(one)
    for name in {name for name, _ in found}:
        ids = {
            uuid_to_text(id_): max(one.metadata.max_timestamp_ms for one in ones)
            for (topic, id_), ones in found.items()
            if topic == name
        }
        if len(ids) > 1:
            listed = ", ".join(f"{id_} (newest record at {at} ms)" for id_, at in ids.items())
            raise UserError(f"there are several topics {name}; choose by --topic-id: {listed}")
    return found


def _row(lineup: Lineup, in_transaction: Sequence[ProducerEntry]) -> Row:
    from ..client.admin.rows import place_text
    from ..protocol.uuids import uuid_to_text

    return {
        "partition": place_text(lineup.partition.topic_partition),
        "topic_id": uuid_to_text(lineup.partition.topic_id),
        "segments": len(lineup.segments),
        "bytes": lineup.size_bytes,
        "first_offset": lineup.log_start_offset,
        "last_offset": lineup.next_offset - 1,
        "missing": sum(last - first + 1 for first, last in lineup.holes) or None,
        "open_transactions": sorted(one.current_txn_first_offset for one in in_transaction),
        "left_out": len(lineup.left) or None,
    }


def _check_holes(found: Iterable[_Topic], skip_holes: bool) -> None:
    from ..client.admin.rows import place_text

    texts = [
        f"{place_text(lineup.partition.topic_partition)} lacks the offsets {first} to {last}"
        for topic in found
        for lineup in topic.partitions.values()
        for first, last in lineup.holes
    ]
    for text in texts:
        echo(text, err=True)
    if texts and not skip_holes:
        raise UserError("records in between are missing; --skip-holes imports the others")


def _check_partitions(found: Iterable[_Topic], partitions: int | None) -> None:
    for topic in found:
        if partitions is not None and max(topic.partitions) >= partitions:
            raise UserError(f"{topic.name} has {max(topic.partitions) + 1} partitions at least")


# The cluster


async def _import(
    target: Target,
    found: Sequence[_Topic],
    known: Sequence[RemoteLogSegmentMetadata],
    partitions: int | None,
    replication_factor: int,
    configs: Mapping[str, str],
) -> None:
    from ..protocol.errors import ErrorCode

    async with target.opened() as admin:
        for answer in (await admin.client.metadata([one.name for one in found])).topics:
            if answer.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise UserError(f"the cluster has a topic {answer.name} already")
        await _write_metadata(admin, target, found, known)
        for topic in found:
            await _create(admin, topic, partitions, replication_factor, configs)
        for topic in found:
            await _check_ends(target, topic)


async def _write_metadata(
    admin: Admin,
    target: Target,
    found: Iterable[_Topic],
    known: Iterable[RemoteLogSegmentMetadata],
) -> None:
    """What the cluster does not know yet of the segments."""
    from ..protocol.topics import REMOTE_LOG_METADATA_TOPIC
    from ..storage.remote.metadata_records import metadata_partition, record_value
    from ..storage.remote.segments import RemoteLogSegmentMetadataUpdate, RemoteLogSegmentState

    count = await _metadata_partitions(admin)
    states = {one.segment_id: one.state for one in known}
    started, finished, *_ = RemoteLogSegmentState
    async with target.producer() as producer:
        for topic in found:
            for lineup in topic.partitions.values():
                number = metadata_partition(lineup.partition, count)
                for one in lineup.segments:
                    state = states.get(one.segment_id, started)
                    if state is finished:
                        continue
                    if state is not started:
                        raise UserError(f"the cluster is deleting segment {one.segment_id}")
                    records = (
                        replace(one, state=started),
                        RemoteLogSegmentMetadataUpdate(
                            one.segment_id, one.event_timestamp_ms, None, finished, one.broker_id
                        ),
                    )
                    for record in records:
                        await producer.enqueue(
                            REMOTE_LOG_METADATA_TOPIC, record_value(record), partition=number
                        )
        await producer.flush()


async def _metadata_partitions(admin: Admin) -> int:
    """The brokers of a new cluster create the topic a little after they have started."""
    from ..protocol.errors import ErrorCode
    from ..protocol.topics import REMOTE_LOG_METADATA_TOPIC

    with trio.move_on_after(LEADERS_SECONDS):
        while True:
            answer = (await admin.client.metadata([REMOTE_LOG_METADATA_TOPIC])).topics[0]
            if answer.error_code == ErrorCode.NONE:
                return len(answer.partitions)
            await trio.sleep(LOOK_EVERY_SECONDS)
    raise UserError(
        f"there is no {REMOTE_LOG_METADATA_TOPIC}: start the brokers with the store, "
        "as their remote tier"
    )


async def _create(
    admin: Admin,
    topic: _Topic,
    partitions: int | None,
    replication_factor: int,
    configs: Mapping[str, str],
) -> None:
    from ..client.admin.topics import NewTopic
    from ..replication.controller.topic_import import IMPORT_CONFIG, NO_RECORDS, TopicImport

    count = partitions or max(topic.partitions) + 1
    lineups = map(topic.partitions.get, range(count))
    epochs = tuple(NO_RECORDS if one is None else one.last_epoch for one in lineups)
    given = {**KEPT, **configs, "remote.storage.enable": "true"}
    given[IMPORT_CONFIG] = str(TopicImport(topic.topic_id, epochs))
    wanted = NewTopic(topic.name, count, replication_factor, {}, given)
    (await admin.topics.create([wanted])).all()


async def _check_ends(target: Target, topic: _Topic) -> None:
    """Wait for the leaders; UserError if they do not have what the store has."""
    from ..client.errors import ClientError

    places = {(topic.name, at): lineup for at, lineup in topic.partitions.items()}
    problem = "no answer"
    async with target.consumer(allow_auto_create_topics=False) as consumer:
        with trio.move_on_after(LEADERS_SECONDS):
            while True:
                try:
                    starts = await consumer.beginning_offsets(places)
                    ends = await consumer.end_offsets(places)
                except ClientError as error:
                    problem = str(error)
                else:
                    wrong = [
                        f"partition {at} begins at {starts[topic.name, at]} and ends at "
                        f"{ends[topic.name, at]}, not {lineup.log_start_offset} and "
                        f"{lineup.next_offset}"
                        for (_, at), lineup in places.items()
                        if starts[topic.name, at] != lineup.log_start_offset
                        or ends[topic.name, at] < lineup.next_offset
                    ]
                    if not wrong:
                        return
                    problem = "; ".join(wrong)
                await trio.sleep(LOOK_EVERY_SECONDS)
    raise UserError(
        f"{topic.name} is created, and its leaders do not have the records ({problem}): "
        "the logs of the brokers say why; do they have this store as their remote tier?"
    )
