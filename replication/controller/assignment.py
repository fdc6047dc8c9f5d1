"""The brokers for the replicas of a new partition: Kafka's arithmetic, rack-aware or not.

Job: place replicas so that leaders are spread round robin, the followers of one broker's leaders
are spread over the others, and racks hold at most one replica of a partition while there are
racks left.

Invariants: every partition gets exactly `replication_factor` different brokers; the result is a
function of the arguments (the caller draws `start_index` and `shift`).

Mirrors kafka.admin.AdminUtils.assignReplicasToBrokers (KIP-36 for racks).
"""

from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import ErrorCode, KafkaError

# A topic is one znode, which holds 1 MB; Kafka fails too, but only after it has tried.
MAX_PARTITIONS_PER_TOPIC = 100_000


def assign_replicas(
    brokers: Sequence[int],
    partition_count: int,
    replication_factor: int,
    *,
    start_index: int,
    shift: int,
    racks: Mapping[int, str] | None = None,
    first_partition: int = 0,
) -> dict[int, list[int]]:
    """Replica lists of `partition_count` partitions from `first_partition` on.

    With `racks` (which must name a rack for every broker) the order of `brokers` is not used.
    """
    if partition_count <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
        )
    if first_partition + partition_count > MAX_PARTITIONS_PER_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"A topic cannot have {first_partition + partition_count} partitions: the most is "
            f"{MAX_PARTITIONS_PER_TOPIC}.",
        )
    if replication_factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}.",
        )
    partitions = range(first_partition, first_partition + partition_count)
    if racks:
        return _rack_aware(brokers, partitions, replication_factor, start_index, shift, racks)
    assignment = {}
    count = len(brokers)
    for partition in partitions:
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start_index) % count
        replicas = [brokers[first]]
        replicas.extend(
            brokers[_follower_index(first, shift, step, count)]
            for step in range(replication_factor - 1)
        )
        assignment[partition] = replicas
    return assignment


def _follower_index(first: int, shift: int, step: int, count: int) -> int:
    """An index other than `first`; successive steps give different ones."""
    return (first + 1 + (shift + step) % (count - 1)) % count


def _rack_aware(
    brokers: Iterable[int],
    partitions: range,
    replication_factor: int,
    start_index: int,
    shift: int,
    racks: Mapping[int, str],
) -> dict[int, list[int]]:
    arranged = alternate_racks({broker: racks[broker] for broker in brokers})
    rack_count = len({racks[broker] for broker in arranged})
    count = len(arranged)
    assignment = {}
    for partition in partitions:
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start_index) % count
        replicas = [arranged[first]]
        used_racks = {racks[arranged[first]]}
        step = 0
        while len(replicas) < replication_factor:
            broker = arranged[_follower_index(first, shift * rack_count, step, count)]
            rack = racks[broker]
            new_rack = rack not in used_racks or len(used_racks) == rack_count
            if new_rack and broker not in replicas:
                replicas.append(broker)
                used_racks.add(rack)
            step += 1
        assignment[partition] = replicas
    return assignment


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """Brokers so that neighbours are in different racks as far as possible.

    Racks in order of name, brokers of a rack by id; one broker of each rack in turn.
    """
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    arranged: list[int] = []
    for turn in range(max((len(queue) for queue in queues), default=0)):
        arranged.extend(queue[turn] for queue in queues if turn < len(queue))
    return arranged


def usable_racks(racks: Mapping[int, str | None]) -> dict[int, str] | None:
    """Racks for a rack-aware assignment; None if no broker has one. KafkaError if only some have
    one."""
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if not known:
        return None
    if len(known) != len(racks):
        missing = sorted(set(racks) - set(known))
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Not all brokers have rack information, which rack-aware assignment needs: {missing}.",
        )
    return known


def assign_added_partitions(
    existing: Mapping[int, Sequence[int]],
    brokers: Sequence[int],
    new_count: int,
    *,
    racks: Mapping[int, str] | None = None,
) -> dict[int, list[int]]:
    """Replicas of the partitions that a growing topic gains; `brokers` sorted by id.

    Placement continues from the first replica of partition 0, which serves as start and shift.
    """
    first_replicas = existing[0]
    start_index = next((i for i, b in enumerate(brokers) if b >= first_replicas[0]), 0)
    return assign_replicas(
        brokers,
        new_count - len(existing),
        len(first_replicas),
        start_index=start_index,
        shift=start_index,
        racks=racks,
        first_partition=len(existing),
    )
