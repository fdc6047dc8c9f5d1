"""Reading one partition for a fetch: access checks, divergence, range, then a slice of the log.

Invariants: a consumer never sees beyond the HW (read_committed: beyond the LSO); no bytes pass
through here, the result holds the log's file slice; an expected failure raises KafkaError, which
the caller turns into `error_data`.

Mirrors Partition.fetchRecords / readRecords of Kafka (KIP-320, KIP-595's diverging epoch).
"""

from typing import Final

from ..protocol.apis.fetch import (
    AbortedTransaction,
    FetchResponseEpochEndOffset,
    FetchResponseLeaderIdAndEpoch,
    FetchResponsePartitionData,
    SnapshotId,
)
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.schema import shared_default
from .partition import Partition
from .types import (
    UNKNOWN_OFFSET,
    ZERO_TOPIC_ID,
    FetchEntry,
    FetchParams,
    Isolation,
)

# The wire's tagged structs at their defaults, which the encoder knows by identity.
_NO_DIVERGENCE: Final = shared_default(FetchResponseEpochEndOffset)
_NO_LEADER: Final = shared_default(FetchResponseLeaderIdAndEpoch)
_NO_SNAPSHOT: Final = shared_default(SnapshotId)
_EMPTY: Final = b""
NO_PREFERRED_REPLICA: Final = -1


def error_data(partition: int, error: ErrorCode) -> FetchResponsePartitionData:
    """The answer to a fetch for a partition with an error: no offsets, no records."""
    return FetchResponsePartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=UNKNOWN_OFFSET,
        last_stable_offset=UNKNOWN_OFFSET,
        log_start_offset=UNKNOWN_OFFSET,
        diverging_epoch=_NO_DIVERGENCE,
        current_leader=_NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=None,
        preferred_read_replica=NO_PREFERRED_REPLICA,
        records=_EMPTY,
    )


def offsets_data(partition: Partition) -> FetchResponsePartitionData:
    """No error and no records: only where the log stands."""
    log = partition.log
    return FetchResponsePartitionData(
        partition_index=partition.partition,
        error_code=0,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=_NO_DIVERGENCE,
        current_leader=_NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=None,
        preferred_read_replica=NO_PREFERRED_REPLICA,
        records=_EMPTY,
    )


def is_plain(data: FetchResponsePartitionData) -> bool:
    """Whether it contains nothing but offsets and records."""
    return (
        not data.error_code
        and data.aborted_transactions is None
        and data.diverging_epoch is _NO_DIVERGENCE
        and data.current_leader is _NO_LEADER
        and data.snapshot_id is _NO_SNAPSHOT
        and data.preferred_read_replica == NO_PREFERRED_REPLICA
    )


def check_readable(partition: Partition, entry: FetchEntry, params: FetchParams) -> None:
    """Raise unless this client may read here; the topic id is checked where both sides have one."""
    topic_id = entry.topic_id
    if (
        topic_id is not ZERO_TOPIC_ID
        and topic_id != partition.topic_id
        and topic_id != ZERO_TOPIC_ID
        and partition.topic_id != ZERO_TOPIC_ID
    ):
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
    if entry.current_leader_epoch >= 0 or (params.only_from_leader and not partition.is_leader):
        error = partition.check_access(entry.current_leader_epoch, params.only_from_leader)
        if error:
            raise KafkaError(error)


def read_partition(
    partition: Partition,
    entry: FetchEntry,
    params: FetchParams,
    max_bytes: int,
    min_one_batch: bool,
) -> FetchResponsePartitionData:
    """Read for one fetch, without side effects. Raises KafkaError; sets in the data the divergence
    of a follower's log from ours."""
    check_readable(partition, entry, params)
    log = partition.log
    fetch_offset = entry.fetch_offset
    # Offsets from before the read: an append in between must not count as seen by a follower.
    data = offsets_data(partition)
    if entry.last_fetched_epoch >= 0:
        divergence = find_divergence(partition, entry)
        if divergence is not None:
            data.diverging_epoch = divergence
            return data
    if not log.log_start_offset <= fetch_offset <= log.log_end_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    include_aborted = params.isolation is Isolation.READ_COMMITTED
    if include_aborted:
        data.aborted_transactions = []
    upper_bound = partition.readable_end_offset(params.isolation)
    if fetch_offset >= upper_bound or (max_bytes <= 0 and not min_one_batch):
        return data
    read = log.read(
        fetch_offset,
        max_bytes if max_bytes < entry.max_bytes else entry.max_bytes,
        upper_bound_offset=upper_bound,
        min_one_batch=min_one_batch,
        include_aborted=include_aborted,
    )
    if read.first_batch_incomplete and not params.strict_limit:
        return data
    data.records = read.records
    if read.aborted_transactions:
        data.aborted_transactions = [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in read.aborted_transactions
        ]
    return data


def find_divergence(partition: Partition, entry: FetchEntry) -> FetchResponseEpochEndOffset | None:
    """The divergence of the fetcher's log from ours, by its last fetched epoch; None if there is
    none."""
    log = partition.log
    epoch, end_offset = log.end_offset_for_epoch(entry.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"The end offset of the last fetched epoch {entry.last_fetched_epoch} is not known",
        )
    if entry.fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < entry.last_fetched_epoch or end_offset < entry.fetch_offset:
        return FetchResponseEpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
