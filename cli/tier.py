"""`pybroker tier`: the segments of topics in remote storage (KIP-405), and whether they are whole.

`list` reads the metadata topic; `verify` also lists the store and reads its segments. Brokers may
copy and delete meanwhile: a fault counts if it is there in two rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import click

from .completion import complete_topics
from .options import UserError, echo
from .target import Row, Target, cluster_options
from .tier_import import import_tier
from .tier_store import READERS, StoreOptions, metadata_of, store_options

if TYPE_CHECKING:
    from ..storage.remote.audit import Finding
    from ..storage.remote.names import StoredFile
    from ..storage.remote.segments import RemoteLogSegmentMetadata
    from ..storage.remote.storage_manager import RemoteStorageManager

EXIT_STATUS_FAULTS = 1


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def tier() -> None:
    """The remote tier of topics: what is stored there, and whether it is whole.

    \b
    pybroker tier list
    pybroker tier verify --tier s3://history/prod
    pybroker tier import --tier s3://history/prod
    """


tier.add_command(import_tier)


@tier.command(
    "list",
    epilog="""\b
Examples:
  pybroker tier list
  pybroker tier list flights --segments
""",
)
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@click.option("--segments", is_flag=True, help="Show each segment, not only partitions.")
@cluster_options
def list_tier(target: Target, topics: tuple[str, ...], segments: bool) -> None:
    """Show the segments in the remote tier, by partition; all TOPICS unless some are named."""
    found = metadata_of(target, topics)
    rows = list(map(_segment_row, found)) if segments else _partition_rows(found)
    target.show(rows, "there are no segments in the remote tier")


@tier.command(
    epilog="""\b
Examples:
  pybroker tier verify --tier /mnt/history
  pybroker tier verify flights --tier s3://history --tier-config region=eu
  pybroker tier verify --broker-config server.properties --names-only
"""
)
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@store_options
@click.option("--names-only", is_flag=True, help="List the store, but read no segments.")
@cluster_options
def verify(
    target: Target,
    topics: tuple[str, ...],
    store: StoreOptions,
    names_only: bool,
) -> None:
    """Compare the store with its metadata, and read all segments; exit status 1 for faults.

    Copies and deletions under way are shown as unfinished, which is no fault. With TOPICS, only
    their segments are looked at.
    """
    from ..storage.remote.audit import Fault

    manager = store.open()
    found, count, size = _round(target, manager, topics, names_only)
    if found:
        again, count, size = _round(target, manager, topics, names_only)
        seen = {(one.fault, one.where) for one in found}
        found = [one for one in again if (one.fault, one.where) in seen]
    manager.close()
    rows: list[Row] = [
        {"fault": one.fault.value, "where": one.where, "text": one.text} for one in found
    ]
    if rows or target.as_json:
        target.show(rows)
    faults = sum(one.fault is not Fault.UNFINISHED for one in found)
    how = "listed" if names_only else "read"
    echo(f"{count} segments with {size} bytes {how}, {faults} faults", err=True)
    if faults:
        raise click.exceptions.Exit(EXIT_STATUS_FAULTS)


def _round(
    target: Target, manager: RemoteStorageManager, topics: Sequence[str], names_only: bool
) -> tuple[list[Finding], int, int]:
    """The findings, and the number and the bytes of finished segments."""
    from ..storage.remote.audit import RemoteStorageInventory, account, check_segment
    from ..storage.remote.segments import RemoteLogSegmentState
    from ..storage.remote.storage_manager import RemoteStorageError

    found: list[Finding] = []
    try:
        # The files first: the metadata of a copy is written before its files.
        inventory = manager if isinstance(manager, RemoteStorageInventory) else None
        files = [] if inventory is None else list(inventory.stored_files())
        segments = metadata_of(target, topics)
        if inventory is not None:
            found += account(segments, [one for one in files if _is_of(one, topics)])
        finished = [
            one for one in segments if one.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        ]
        if not names_only:
            with ThreadPoolExecutor(READERS) as threads:
                for some in threads.map(lambda one: check_segment(manager, one), finished):
                    found += some
    except RemoteStorageError as error:
        raise UserError(f"the store does not answer: {error}") from error
    return found, len(finished), sum(one.segment_size_bytes for one in finished)


def _is_of(file: StoredFile | str, topics: Sequence[str]) -> bool:
    """Whether a file is looked at; those of no segment only without a choice of topics."""
    if not topics:
        return True
    return not isinstance(file, str) and file.segment_id.topic_id_partition.topic in topics


def _segment_row(one: RemoteLogSegmentMetadata) -> Row:
    from ..client.admin.rows import place_text
    from ..protocol.uuids import uuid_to_text

    return {
        "partition": place_text(one.topic_id_partition.topic_partition),
        "topic_id": uuid_to_text(one.topic_id_partition.topic_id),
        "segment": uuid_to_text(one.segment_id.id),
        "state": one.state.name,
        "first_offset": one.start_offset,
        "last_offset": one.end_offset,
        "bytes": one.segment_size_bytes,
        "newest_ms": one.max_timestamp_ms,
        "broker": one.broker_id,
    }


def _partition_rows(segments: Iterable[RemoteLogSegmentMetadata]) -> list[Row]:
    from ..client.admin.rows import place_text
    from ..storage.remote.segments import RemoteLogSegmentState, TopicIdPartition

    by_partition: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = {}
    for one in segments:
        by_partition.setdefault(one.topic_id_partition, []).append(one)
    copying, finished, deleting, _ = RemoteLogSegmentState
    rows: list[Row] = []
    for partition, ones in by_partition.items():
        whole = [one for one in ones if one.state is finished]
        rows.append(
            {
                "partition": place_text(partition.topic_partition),
                "segments": len(whole),
                "bytes": sum(one.segment_size_bytes for one in whole),
                "first_offset": min((one.start_offset for one in whole), default=None),
                "last_offset": max((one.end_offset for one in whole), default=None),
                "copying": sum(one.state is copying for one in ones),
                "deleting": sum(one.state is deleting for one in ones),
            }
        )
    return rows
