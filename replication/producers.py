"""Questions about the producers of a partition: may one begin a transaction, and which are there.

`begin_verification` is the first half of KIP-890's first part: it decides whether a batch needs to
be verified with the transaction coordinator (since part 2: added to the transaction), and gives the
guard that the append after the answer must show. DescribeProducers is answered by every replica
(KIP-664): a follower's knowledge may differ from its leader's, and the request exists to find that.
During a rebuild after a truncation these answers come from the producers as they were before it.

Mirrors ReplicaManager.maybeStartTransactionVerificationForPartition and activeProducerState.
"""

from ..protocol.errors import ErrorCode
from ..protocol.topics import TopicPartition
from ..storage.producer_entry import ProducerEntry
from ..storage.verification import VerificationGuard
from .hosted_partitions import HostedPartitions


def begin_verification(
    hosted: HostedPartitions,
    key: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    now_ms: int,
    *,
    adds: bool = False,
) -> VerificationGuard | ErrorCode | None:
    """The guard of a batch that has to be verified; None if its transaction is open already. With
    `adds` (transaction version 2) a transaction has an epoch of its own."""
    partition = hosted.partitions.get(key)
    if partition is None:
        return hosted.missing_error(key)
    if not partition.is_leader:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    producers = partition.log.producers
    state = producers.known
    # While they are being rebuilt, which transactions are open is unknown: all are verified.
    if not producers.is_being_rebuilt:
        if not adds:
            is_open = state.has_open_transaction(producer_id)
        else:
            entry = state.entries.get(producer_id)
            if entry is not None and producer_epoch < entry.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            is_open = state.has_transaction_of_epoch(producer_id, producer_epoch)
        if is_open:
            return None
    return state.verifications.begin(producer_id, base_sequence, producer_epoch, now_ms, adds)


def active_producers(
    hosted: HostedPartitions, key: TopicPartition
) -> tuple[ErrorCode, list[ProducerEntry]]:
    partition = hosted.partitions.get(key)
    if partition is None:
        return hosted.missing_error(key), []
    return ErrorCode.NONE, list(partition.log.producers.known.entries.values())


def partitions_with_late_transactions(
    hosted: HostedPartitions, now_ms: int, max_transaction_timeout_ms: int
) -> int:
    """Partitions that this broker leads whose oldest transaction outlived every timeout."""
    return sum(
        partition.is_leader
        and partition.log.producers.known.has_late_transaction(
            now_ms, partition.log.wall.trusted_ms(now_ms), max_transaction_timeout_ms
        )
        for partition in hosted.partitions.values()
    )
