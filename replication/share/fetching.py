"""A fetch of a share group's member: from the log to acquired records, in one step.

Job: `ShareFetch` is a fetch and its wait; `read_for` reads what the share partitions of it need,
acquires records, and returns the data of the answer; None if the fetch is to wait for more bytes.
The bytes of a response are divided evenly among the partitions that have room.

It waits until the readable bytes of its partitions reach `min_bytes`, or one has an error. Bytes
are counted as those of other fetches: by places in the log.

Mirrors DelayedShareFetch and ShareFetchUtils.processFetchResponse of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.files import FileSlice
from ..fetch_reader import FetchReader
from ..partition import Partition
from ..purgatory import Operation
from ..types import FetchEntry, FetchParams
from .acquiring import Acquired, Asked, acquire, enough_offset
from .fetched import fetched_batches, part_of, uniform_bytes
from .sessions import PartitionKey, Wanted
from .share_partition import SharePartition


class AcquiredPart(NamedTuple):
    """The answer for one partition."""

    error_code: ErrorCode
    records: FileSlice | bytes
    acquired: Sequence[Acquired]


# By partition; those without records are named as well, if they were read.
Acquisition = dict[PartitionKey, AcquiredPart]
_NOTHING = AcquiredPart(ErrorCode.NONE, b"", ())


class ShareFetch(Operation):
    __slots__ = (
        "asked", "errors", "group_id", "known_errors", "max_wait_ms", "params",
        "wanted",
    )  # fmt: skip

    def __init__(
        self,
        group_id: str,
        asked: Asked,
        params: FetchParams,
        wanted: Sequence[Wanted],
    ) -> None:
        super().__init__(None)
        self.group_id = group_id
        self.asked = asked
        self.params = params
        self.max_wait_ms = params.max_wait_ms
        # Each has a topic; in the order in which they are read.
        self.wanted = wanted
        # Partitions that cannot be fetched, and why.
        self.errors: dict[PartitionKey, KafkaError] = {}
        self.known_errors = 0


def read_for(
    fetch: ShareFetch,
    machines: Mapping[PartitionKey, tuple[Partition, SharePartition]],
    reader: FetchReader,
    now_ms: int,
    *,
    is_last: bool,
) -> Acquisition | None:
    """Of the share partitions that have room; None: wait. `is_last`: with whatever there is."""
    if not machines:
        return {} if is_last else None
    params = fetch.params
    sizes = uniform_bytes(params.max_bytes, len(machines))
    offsets = [machine.next_fetch_offset() for _, machine in machines.values()]
    if not is_last and not _is_enough(machines, offsets, sizes, params):
        return None
    results: Acquisition = {}
    count = 0
    remaining = params.max_bytes
    is_first = True
    for (key, (partition, machine)), offset, size in zip(
        machines.items(), offsets, sizes, strict=True
    ):
        most = fetch.asked.max_records - count
        if most <= 0:
            break
        entry = FetchEntry(
            partition.topic, partition.partition, fetch_offset=offset, max_bytes=size,
            topic_id=key[0],
        )  # fmt: skip
        data = reader.read_hosted(partition, params, entry, min(remaining, size), is_first, now_ms)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            # Retention has removed records; the client asks again.
            machine.log_start_moved(partition.log.log_start_offset)
            results[key] = _NOTHING
            continue
        if data.error_code:
            results[key] = AcquiredPart(ErrorCode(data.error_code), b"", ())
            continue
        records = data.records
        if not records:
            results[key] = _NOTHING
            continue
        assert isinstance(records, FileSlice)
        remaining = max(0, remaining - len(records))
        is_first = False
        aborted = [
            (each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
        ]
        enough = enough_offset(machine, offset, most)
        try:
            batches = fetched_batches(records, offset, enough, with_markers=bool(aborted))
        except KafkaError as error:
            results[key] = AcquiredPart(error.code, b"", ())
            continue
        asked = fetch.asked._replace(max_records=most)
        outcome = acquire(machine, asked, offset, batches, now_ms, aborted)
        if not outcome.acquired:
            partition.stats.bytes_out -= len(records)
            results[key] = _NOTHING
            continue
        count += outcome.record_count
        part = part_of(records, batches, outcome.acquired)
        partition.stats.bytes_out -= len(records) - len(part)
        results[key] = AcquiredPart(ErrorCode.NONE, part, outcome.acquired)
    return results


def _is_enough(
    machines: Mapping[PartitionKey, tuple[Partition, SharePartition]],
    offsets: Sequence[int],
    sizes: Sequence[int],
    params: FetchParams,
) -> bool:
    """Whether there are `min_bytes`, or something that must be answered."""
    total = 0
    for (partition, _), offset, size in zip(machines.values(), offsets, sizes, strict=True):
        log = partition.log
        end_offset = partition.readable_end_offset(params.isolation)
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return True
        if offset >= end_offset:
            continue
        if params.min_bytes <= 1:
            return True
        try:
            start, end = log.place_of(offset), log.place_behind(end_offset)
        except KafkaError:
            return True  # the read finds it
        if start[0] != end[0]:
            return True
        total += min(end[1] - start[1], size)
    return total >= params.min_bytes
