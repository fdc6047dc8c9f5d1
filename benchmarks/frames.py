"""Requests as bytes, for the load generator, and topics to send them to.

The load generator only needs to know where an answer holds its error code; that place is the same
for all answers about one partition of topics whose names have the same length.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

from benchmarks.native import LoadError
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest
from pybroker_kafka.protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.apis.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.framing import encode_request
from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.protocol.schema import Message
from tests.support.frames import joined
from tests.support.wire import WireClient

PRODUCE_VERSION = 9
FETCH_VERSION = 4
COMMIT_VERSION = 7
HEARTBEAT_VERSION = 2
OFFSET_FETCH_VERSION = 5
METADATA_VERSION = 4
CREATE_VERSION = 2
DELETE_VERSION = 1
# The topic is there, or will be: it exists already, or the answer came before its last leader.
CREATED = (0, 36, 7)
# No controller yet, another controller, fewer brokers than replicas: a cluster that still starts.
STILL_STARTING = (8, 41, 38)
PATIENCE_SECONDS = 180.0
RECORD_BYTES = 1024
_OFFSET_MARK = 0x5A11C0DE5A11C0DE
_INT64 = Struct(">q")

Address = tuple[str, int]


def produce_frame(topic: str, partition: int, *, acks: int = 1, records: int = 1) -> bytes:
    """A Produce request with records of 1 KiB."""
    now_ms = int(time.time() * 1000)
    batch = build_batch([SimpleRecord(now_ms, None, b"x" * RECORD_BYTES)] * records)
    return batch_frame(topic, partition, batch, acks=acks)


def batch_frame(topic: str, partition: int, batch: Buffer, *, acks: int = 1) -> bytes:
    """A Produce request with this batch."""
    data = PartitionProduceData(index=partition, records=batch)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics)
    return _frame(ApiKey.PRODUCE, PRODUCE_VERSION, request)


def lone_records_frame(topic: str, partitions: int) -> bytes:
    """A Produce request with a batch of one record of 1 KiB for each partition."""
    now_ms = int(time.time() * 1000)
    batch = build_batch([SimpleRecord(now_ms, None, b"x" * RECORD_BYTES)])
    data = [PartitionProduceData(index=n, records=batch) for n in range(partitions)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return _frame(
        ApiKey.PRODUCE,
        PRODUCE_VERSION,
        ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics),
    )


def produce_error_at(topic: str) -> int:
    """Behind correlation id, tags, topics, name, partitions and index, all of one-byte lengths."""
    assert len(topic) < 0x7F
    return 4 + 1 + 1 + 1 + len(topic) + 1 + 4


def commit_frame(group: str, topic: str, partition: int) -> bytes:
    """An OffsetCommit of a consumer that assigned the partition to itself."""
    entry = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=42, committed_metadata=""
    )
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[entry])]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    return _frame(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, request)


def entry_error_at(topic: str) -> int:
    """Of an OffsetCommit or a Fetch: behind correlation id, throttle time, topics, name, partitions
    and index."""
    return 4 + 4 + 4 + 2 + len(topic) + 4 + 4


def heartbeat_frame(group: str, member_id: str, generation: int) -> bytes:
    """A Heartbeat of a member of a stable group."""
    request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
    return _frame(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request)


def heartbeat_error_at() -> int:
    """Behind correlation id and throttle time."""
    return 4 + 4


def offset_fetch_frame(group: str, topic: str, partition: int) -> bytes:
    """Where a group stands in one partition."""
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])]
    request = OffsetFetchRequest(group_id=group, topics=topics)
    return _frame(ApiKey.OFFSET_FETCH, OFFSET_FETCH_VERSION, request)


def fetched_offset_error_at(topic: str) -> int:
    """Behind what `entry_error_at` counts, offset, leader epoch and metadata without a letter."""
    return entry_error_at(topic) + 8 + 4 + 2


def fetch_frame(topic: str) -> tuple[bytes, int]:
    """A Fetch of partition 0 that waits for the next record, and where its offset stands."""
    partition = FetchPartition(partition=0, fetch_offset=_OFFSET_MARK, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )
    frame = _frame(ApiKey.FETCH, FETCH_VERSION, request)
    return frame, frame.index(_INT64.pack(_OFFSET_MARK))


def small_fetch_frame(topic: str, index: int, offset: int, max_bytes: int) -> bytes:
    """A Fetch of what is there from an offset on, which does not wait."""
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=topics)
    return _frame(ApiKey.FETCH, FETCH_VERSION, request)


def _frame(key: ApiKey, version: int, request: Message) -> bytes:
    parts = encode_request(key, version, 1, "bench", request)
    return joined(parts)


def topic_name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def create_topic(
    bootstrap: str, name: str, partitions: int, replicas: int = 1
) -> dict[int, Address]:
    """Create it unless it exists; returns each partition's leader once all replicas are in."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    creatable = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    return _created(bootstrap, creatable, partitions, replicas, deadline)


def create_assigned_topic(
    bootstrap: str, name: str, partitions: int, nodes: Sequence[int]
) -> dict[int, Address]:
    """A topic all of whose partitions have these replicas, the first of which leads."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
        for index in range(partitions)
    ]
    creatable = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    return _created(bootstrap, creatable, partitions, len(nodes), deadline)


def _created(
    bootstrap: str, creatable: CreatableTopic, partitions: int, replicas: int, deadline: float
) -> dict[int, Address]:
    name = creatable.name
    request = CreateTopicsRequest(topics=[creatable], timeout_ms=60_000)
    while True:
        code = STILL_STARTING[0]
        if (controller := _controller(bootstrap)) is not None:
            with controller as client:
                code = client.call(request, CREATE_VERSION).topics[0].error_code
        if code in CREATED:
            return leaders_of(bootstrap, name, partitions, replicas, deadline)
        if code not in STILL_STARTING or time.monotonic() > deadline:
            raise LoadError(f"creating {name}: error {code}")
        time.sleep(0.1)


def delete_topic(bootstrap: str, name: str) -> None:
    if (controller := _controller(bootstrap)) is not None:
        with controller as client:
            client.call(DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000), DELETE_VERSION)


def leaders_of(
    bootstrap: str, name: str, partitions: int, replicas: int, deadline: float
) -> dict[int, Address]:
    """The address of each partition's leader, once its replicas are all in sync.

    Each leader must say so itself: on a busy machine other brokers know of it first.
    """
    while time.monotonic() < deadline:
        leaders = _leaders_by(bootstrap, name, partitions, replicas)
        if leaders and all(
            _leaders_by(f"{host}:{port}", name, partitions, replicas) == leaders
            for host, port in set(leaders.values())
        ):
            return leaders
        time.sleep(0.05)
    raise LoadError(f"{name} does not get all its leaders and replicas")


def _leaders_by(
    bootstrap: str, name: str, partitions: int, replicas: int
) -> dict[int, Address] | None:
    """The leaders that one broker knows, or None while some replica is missing."""
    with _client(bootstrap) as client:
        answer = _metadata(client, [name])
    brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    found = answer.topics[0].partitions
    if len(found) != partitions or any(
        entry.leader_id not in brokers or len(entry.isr_nodes) != replicas for entry in found
    ):
        return None
    return {entry.partition_index: brokers[entry.leader_id] for entry in found}


def first_acknowledged(
    addresses: Sequence[Address], topic: str, partitions: Iterable[int], *, acks: int, limit: float
) -> None:
    """Return as soon as a record to each of the partitions is acknowledged.

    Asks again and again, as a client does that is started together with the cluster. A topic that
    does not exist is created by asking for it.
    """
    deadline = time.monotonic() + limit
    waiting = list(partitions)
    turn = 0
    while waiting:
        if time.monotonic() > deadline:
            raise LoadError(f"no record to {topic} is acknowledged within {limit:.0f} s")
        host, port = addresses[turn % len(addresses)]
        turn += 1
        try:
            with WireClient(f"{host}:{port}") as client:
                client.socket.settimeout(max(1.0, deadline - time.monotonic()))
                leader = _leader_of(client, topic, waiting[0])
            if leader is None:
                time.sleep(0.005)
                continue
            with WireClient(f"{leader[0]}:{leader[1]}") as client:
                while waiting and _is_acknowledged(client, topic, waiting[0], acks):
                    waiting.pop(0)
        except (OSError, AssertionError):
            time.sleep(0.005)


def first_acknowledged_by(
    address: Address, topic: str, partitions: Sequence[int], *, limit: float
) -> list[float]:
    """When (`time.monotonic`) this broker acknowledges a record to each of the partitions for the
    first time; it is asked for each until it does."""
    deadline = time.monotonic() + limit
    times: dict[int, float] = {}
    while len(times) < len(partitions):
        if time.monotonic() > deadline:
            raise LoadError(f"{address} does not lead all of {topic} within {limit:.0f} s")
        try:
            with WireClient("{}:{}".format(*address)) as client:
                for partition in partitions:
                    if partition not in times and _is_acknowledged(client, topic, partition, 1):
                        times[partition] = time.monotonic()
        except OSError:
            pass
        time.sleep(0.005)
    return [times[partition] for partition in partitions]


def nodes_of(bootstrap: str, count: int) -> tuple[dict[int, Address], int]:
    """The addresses of all brokers by their ids, and the controller's id."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with _client(bootstrap) as client:
            answer = _metadata(client, [])
        found = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        if len(found) == count and answer.controller_id in found:
            return found, answer.controller_id
        time.sleep(0.05)
    raise LoadError(f"there are not {count} brokers with a controller")


def _leader_of(client: WireClient, topic: str, partition: int) -> Address | None:
    answer = _metadata(client, [topic])
    brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
    for entry in answer.topics[0].partitions:
        if entry.partition_index == partition:
            return brokers.get(entry.leader_id)
    return None


def _is_acknowledged(client: WireClient, topic: str, partition: int, acks: int) -> bool:
    client.socket.sendall(produce_frame(topic, partition, acks=acks))
    answer = client.receive(ApiKey.PRODUCE, PRODUCE_VERSION, 1)
    return not answer.responses[0].partition_responses[0].error_code


def _metadata(client: WireClient, names: Sequence[str]) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return client.call(
        MetadataRequest(topics=topics, allow_auto_topic_creation=True), METADATA_VERSION
    )


def _client(bootstrap: str) -> WireClient:
    client = WireClient(bootstrap.partition(",")[0])
    client.socket.settimeout(PATIENCE_SECONDS)
    return client


def _controller(bootstrap: str) -> WireClient | None:
    with _client(bootstrap) as client:
        answer = _metadata(client, [])
        for broker in answer.brokers:
            if broker.node_id == answer.controller_id:
                return _client(f"{broker.host}:{broker.port}")
    return None
