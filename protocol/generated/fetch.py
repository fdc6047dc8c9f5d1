"""Of `apis/fetch.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponseLeaderIdAndEpoch,
    FetchResponseNodeEndpoint,
    FetchResponsePartitionData,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
    SnapshotId,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import NO_TAGS, ZERO_UUID, made_by_readers, shared_default
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_AbortedTransaction: Final[Any] = made_by_readers(AbortedTransaction)
_FetchPartition: Final[Any] = made_by_readers(FetchPartition)
_FetchRequest: Final[Any] = made_by_readers(FetchRequest)
_FetchResponse: Final[Any] = made_by_readers(FetchResponse)
_FetchResponseEpochEndOffset: Final[Any] = made_by_readers(FetchResponseEpochEndOffset)
_FetchResponseLeaderIdAndEpoch: Final[Any] = made_by_readers(FetchResponseLeaderIdAndEpoch)
_FetchResponseNodeEndpoint: Final[Any] = made_by_readers(FetchResponseNodeEndpoint)
_FetchResponsePartitionData: Final[Any] = made_by_readers(FetchResponsePartitionData)
_FetchTopic: Final[Any] = made_by_readers(FetchTopic)
_FetchableTopicResponse: Final[Any] = made_by_readers(FetchableTopicResponse)
_ForgottenTopic: Final[Any] = made_by_readers(ForgottenTopic)
_ReplicaState: Final[Any] = made_by_readers(ReplicaState)
_SnapshotId: Final[Any] = made_by_readers(SnapshotId)
DEFAULT_ReplicaState: Final[Any] = shared_default(ReplicaState)
DEFAULT_FetchResponseEpochEndOffset: Final[Any] = shared_default(FetchResponseEpochEndOffset)
DEFAULT_FetchResponseLeaderIdAndEpoch: Final[Any] = shared_default(FetchResponseLeaderIdAndEpoch)
DEFAULT_SnapshotId: Final[Any] = shared_default(SnapshotId)


def read_ReplicaState(r: Reader, version: i64) -> Any:
    m: Any = _ReplicaState()
    m.replica_id = r.int32()
    m.replica_epoch = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReplicaState(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.replica_id)
    write_i64_be(out, m.replica_epoch)
    w.unknown_tags("ReplicaState", m.unknown_tagged_fields)


def read_tags_of_FetchPartition(r: Reader, m: Any, version: i64) -> None:
    m.replica_directory_id = ZERO_UUID
    m.high_watermark = 9223372036854775807
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0 and version >= 17:
            m.replica_directory_id = r.uuid()
            r.end_tag("FetchPartition.replica_directory_id", end)
        elif tag == 1 and version >= 18:
            m.high_watermark = r.int64()
            r.end_tag("FetchPartition.high_watermark", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_FetchPartition(r: Reader, version: i64) -> Any:
    m: Any = _FetchPartition()
    m.partition = r.int32()
    if version >= 9:
        m.current_leader_epoch = r.int32()
    else:
        m.current_leader_epoch = -1
    m.fetch_offset = r.int64()
    if version >= 12:
        m.last_fetched_epoch = r.int32()
    else:
        m.last_fetched_epoch = -1
    if version >= 5:
        m.log_start_offset = r.int64()
    else:
        m.log_start_offset = -1
    m.partition_max_bytes = r.int32()
    read_tags_of_FetchPartition(r, m, version)
    return m


def _write_known_tags_of_FetchPartition(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if version >= 17 and m.replica_directory_id != ZERO_UUID:
        w = outer.inner()
        w.uuid(m.replica_directory_id)
        known.append((0, w))
    if version >= 18 and m.high_watermark != 9223372036854775807:
        w = outer.inner()
        out = w.out
        write_i64_be(out, m.high_watermark)
        known.append((1, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_FetchPartition(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (
        (version >= 17 and m.replica_directory_id != ZERO_UUID)
        or (version >= 18 and m.high_watermark != 9223372036854775807)
    ):
        _write_known_tags_of_FetchPartition(w, m, version)
    else:
        w.unknown_tags("FetchPartition", m.unknown_tagged_fields)


def write_FetchPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition)
    if version >= 9:
        write_i32_be(out, m.current_leader_epoch)
    write_i64_be(out, m.fetch_offset)
    if version >= 12:
        write_i32_be(out, m.last_fetched_epoch)
    elif m.last_fetched_epoch != -1:
        w.refuse("FetchPartition.last_fetched_epoch")
    if version >= 5:
        write_i64_be(out, m.log_start_offset)
    write_i32_be(out, m.partition_max_bytes)
    write_tags_of_FetchPartition(w, m, version)


def read_FetchTopic(r: Reader, version: i64) -> Any:
    m: Any = _FetchTopic()
    if version <= 12:
        m.topic = r.string("topic", False)
    else:
        m.topic = ""
    if version >= 13:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partitions", False, 16)
    m.partitions = [read_FetchPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FetchTopic(w: Writer, m: Any, version: i64) -> None:
    if version <= 12:
        w.string("topic", m.topic, False)
    if version >= 13:
        w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_FetchPartition(w, item, version)
    w.unknown_tags("FetchTopic", m.unknown_tagged_fields)


def read_ForgottenTopic(r: Reader, version: i64) -> Any:
    m: Any = _ForgottenTopic()
    if version <= 12:
        m.topic = r.string("topic", False)
    else:
        m.topic = ""
    if version >= 13:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ForgottenTopic(w: Writer, m: Any, version: i64) -> None:
    if version <= 12:
        w.string("topic", m.topic, False)
    if version >= 13:
        w.uuid(m.topic_id)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("ForgottenTopic", m.unknown_tagged_fields)


def read_tags_of_FetchRequest(r: Reader, m: Any, version: i64) -> None:
    m.cluster_id = None
    m.replica_state = DEFAULT_ReplicaState
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0:
            m.cluster_id = r.string("cluster_id", True)
            r.end_tag("FetchRequest.cluster_id", end)
        elif tag == 1 and version >= 15:
            m.replica_state = read_ReplicaState(r, version)
            r.end_tag("FetchRequest.replica_state", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_FetchRequest(r: Reader, version: i64) -> Any:
    m: Any = _FetchRequest()
    if version <= 14:
        m.replica_id = r.int32()
    else:
        m.replica_id = -1
    m.max_wait_ms = r.int32()
    m.min_bytes = r.int32()
    if version >= 3:
        m.max_bytes = r.int32()
    else:
        m.max_bytes = 2147483647
    if version >= 4:
        m.isolation_level = r.int8()
    else:
        m.isolation_level = 0
    if version >= 7:
        m.session_id = r.int32()
        m.session_epoch = r.int32()
    else:
        m.session_id = 0
        m.session_epoch = -1
    count = r.count("topics", False, 3)
    m.topics = [read_FetchTopic(r, version) for _ in range(count)]
    if version >= 7:
        count = r.count("forgotten_topics_data", False, 3)
        m.forgotten_topics_data = [read_ForgottenTopic(r, version) for _ in range(count)]
    else:
        m.forgotten_topics_data = []
    if version >= 11:
        m.rack_id = r.string("rack_id", False)
    else:
        m.rack_id = ""
    read_tags_of_FetchRequest(r, m, version)
    return m


def _write_known_tags_of_FetchRequest(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.cluster_id is not None:
        w = outer.inner()
        w.string("cluster_id", m.cluster_id, True)
        known.append((0, w))
    if version >= 15 and (
        m.replica_state is not DEFAULT_ReplicaState and m.replica_state != DEFAULT_ReplicaState
    ):
        w = outer.inner()
        if m.replica_state is None:
            w.refuse_null("replica_state")
        write_ReplicaState(w, m.replica_state, version)
        known.append((1, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_FetchRequest(w: Writer, m: Any, version: i64) -> None:
    if version <= 14 and (
        m.replica_state is not DEFAULT_ReplicaState and m.replica_state != DEFAULT_ReplicaState
    ):
        w.refuse("FetchRequest.replica_state")
    if w.flexible and (
        m.cluster_id is not None
        or (
            version >= 15
            and (
                m.replica_state is not DEFAULT_ReplicaState
                and m.replica_state != DEFAULT_ReplicaState
            )
        )
    ):
        _write_known_tags_of_FetchRequest(w, m, version)
    else:
        w.unknown_tags("FetchRequest", m.unknown_tagged_fields)


def write_FetchRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version <= 14:
        write_i32_be(out, m.replica_id)
    elif m.replica_id != -1:
        w.refuse("FetchRequest.replica_id")
    write_i32_be(out, m.max_wait_ms)
    write_i32_be(out, m.min_bytes)
    if version >= 3:
        write_i32_be(out, m.max_bytes)
    if version >= 4:
        w.int8(m.isolation_level)
    if version >= 7:
        write_i32_be(out, m.session_id)
        write_i32_be(out, m.session_epoch)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_FetchTopic(w, item, version)
    if version >= 7:
        forgotten_topics_data = m.forgotten_topics_data
        w.array("forgotten_topics_data", forgotten_topics_data, False)
        for item in forgotten_topics_data:
            write_ForgottenTopic(w, item, version)
    elif m.forgotten_topics_data != []:
        w.refuse("FetchRequest.forgotten_topics_data")
    if version >= 11:
        w.string("rack_id", m.rack_id, False)
    write_tags_of_FetchRequest(w, m, version)


def read_FetchResponseEpochEndOffset(r: Reader, version: i64) -> Any:
    m: Any = _FetchResponseEpochEndOffset()
    m.epoch = r.int32()
    m.end_offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FetchResponseEpochEndOffset(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.epoch)
    write_i64_be(out, m.end_offset)
    w.unknown_tags("FetchResponseEpochEndOffset", m.unknown_tagged_fields)


def read_FetchResponseLeaderIdAndEpoch(r: Reader, version: i64) -> Any:
    m: Any = _FetchResponseLeaderIdAndEpoch()
    m.leader_id = r.int32()
    m.leader_epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FetchResponseLeaderIdAndEpoch(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.leader_id)
    write_i32_be(out, m.leader_epoch)
    w.unknown_tags("FetchResponseLeaderIdAndEpoch", m.unknown_tagged_fields)


def read_SnapshotId(r: Reader, version: i64) -> Any:
    m: Any = _SnapshotId()
    m.end_offset = r.int64()
    m.epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SnapshotId(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.end_offset)
    write_i32_be(out, m.epoch)
    w.unknown_tags("SnapshotId", m.unknown_tagged_fields)


def read_AbortedTransaction(r: Reader, version: i64) -> Any:
    m: Any = _AbortedTransaction()
    m.producer_id = r.int64()
    m.first_offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AbortedTransaction(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.producer_id)
    write_i64_be(out, m.first_offset)
    w.unknown_tags("AbortedTransaction", m.unknown_tagged_fields)


def read_tags_of_FetchResponsePartitionData(r: Reader, m: Any, version: i64) -> None:
    m.diverging_epoch = DEFAULT_FetchResponseEpochEndOffset
    m.current_leader = DEFAULT_FetchResponseLeaderIdAndEpoch
    m.snapshot_id = DEFAULT_SnapshotId
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0:
            m.diverging_epoch = read_FetchResponseEpochEndOffset(r, version)
            r.end_tag("FetchResponsePartitionData.diverging_epoch", end)
        elif tag == 1:
            m.current_leader = read_FetchResponseLeaderIdAndEpoch(r, version)
            r.end_tag("FetchResponsePartitionData.current_leader", end)
        elif tag == 2:
            m.snapshot_id = read_SnapshotId(r, version)
            r.end_tag("FetchResponsePartitionData.snapshot_id", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_FetchResponsePartitionData(r: Reader, version: i64) -> Any:
    m: Any = _FetchResponsePartitionData()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.high_watermark = r.int64()
    if version >= 4:
        m.last_stable_offset = r.int64()
    else:
        m.last_stable_offset = -1
    if version >= 5:
        m.log_start_offset = r.int64()
    else:
        m.log_start_offset = -1
    if version >= 4:
        count = r.count("aborted_transactions", True, 16)
        m.aborted_transactions = (
            None if count < 0 else [read_AbortedTransaction(r, version) for _ in range(count)]
        )
    else:
        m.aborted_transactions = []
    if version >= 11:
        m.preferred_read_replica = r.int32()
    else:
        m.preferred_read_replica = -1
    m.records = r.binary("records", True)
    read_tags_of_FetchResponsePartitionData(r, m, version)
    return m


def _write_known_tags_of_FetchResponsePartitionData(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if (
        m.diverging_epoch is not DEFAULT_FetchResponseEpochEndOffset
        and m.diverging_epoch != DEFAULT_FetchResponseEpochEndOffset
    ):
        w = outer.inner()
        if m.diverging_epoch is None:
            w.refuse_null("diverging_epoch")
        write_FetchResponseEpochEndOffset(w, m.diverging_epoch, version)
        known.append((0, w))
    if (
        m.current_leader is not DEFAULT_FetchResponseLeaderIdAndEpoch
        and m.current_leader != DEFAULT_FetchResponseLeaderIdAndEpoch
    ):
        w = outer.inner()
        if m.current_leader is None:
            w.refuse_null("current_leader")
        write_FetchResponseLeaderIdAndEpoch(w, m.current_leader, version)
        known.append((1, w))
    if m.snapshot_id is not DEFAULT_SnapshotId and m.snapshot_id != DEFAULT_SnapshotId:
        w = outer.inner()
        if m.snapshot_id is None:
            w.refuse_null("snapshot_id")
        write_SnapshotId(w, m.snapshot_id, version)
        known.append((2, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_FetchResponsePartitionData(w: Writer, m: Any, version: i64) -> None:
    if version <= 11 and (
        m.diverging_epoch is not DEFAULT_FetchResponseEpochEndOffset
        and m.diverging_epoch != DEFAULT_FetchResponseEpochEndOffset
    ):
        w.refuse("FetchResponsePartitionData.diverging_epoch")
    if version <= 11 and (
        m.current_leader is not DEFAULT_FetchResponseLeaderIdAndEpoch
        and m.current_leader != DEFAULT_FetchResponseLeaderIdAndEpoch
    ):
        w.refuse("FetchResponsePartitionData.current_leader")
    if version <= 11 and (
        m.snapshot_id is not DEFAULT_SnapshotId and m.snapshot_id != DEFAULT_SnapshotId
    ):
        w.refuse("FetchResponsePartitionData.snapshot_id")
    if w.flexible and (
        (
            m.diverging_epoch is not DEFAULT_FetchResponseEpochEndOffset
            and m.diverging_epoch != DEFAULT_FetchResponseEpochEndOffset
        )
        or (
            m.current_leader is not DEFAULT_FetchResponseLeaderIdAndEpoch
            and m.current_leader != DEFAULT_FetchResponseLeaderIdAndEpoch
        )
        or (m.snapshot_id is not DEFAULT_SnapshotId and m.snapshot_id != DEFAULT_SnapshotId)
    ):
        _write_known_tags_of_FetchResponsePartitionData(w, m, version)
    else:
        w.unknown_tags("FetchResponsePartitionData", m.unknown_tagged_fields)


def write_FetchResponsePartitionData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    write_i64_be(out, m.high_watermark)
    if version >= 4:
        write_i64_be(out, m.last_stable_offset)
    if version >= 5:
        write_i64_be(out, m.log_start_offset)
    if version >= 4:
        aborted_transactions = m.aborted_transactions
        w.array("aborted_transactions", aborted_transactions, True)
        for item in aborted_transactions or ():
            write_AbortedTransaction(w, item, version)
    if version >= 11:
        write_i32_be(out, m.preferred_read_replica)
    elif m.preferred_read_replica != -1:
        w.refuse("FetchResponsePartitionData.preferred_read_replica")
    w.records("records", m.records, True)
    write_tags_of_FetchResponsePartitionData(w, m, version)


def read_FetchableTopicResponse(r: Reader, version: i64) -> Any:
    m: Any = _FetchableTopicResponse()
    if version <= 12:
        m.topic = r.string("topic", False)
    else:
        m.topic = ""
    if version >= 13:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partitions", False, 18)
    m.partitions = [read_FetchResponsePartitionData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FetchableTopicResponse(w: Writer, m: Any, version: i64) -> None:
    if version <= 12:
        w.string("topic", m.topic, False)
    if version >= 13:
        w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_FetchResponsePartitionData(w, item, version)
    w.unknown_tags("FetchableTopicResponse", m.unknown_tagged_fields)


def read_FetchResponseNodeEndpoint(r: Reader, version: i64) -> Any:
    m: Any = _FetchResponseNodeEndpoint()
    m.node_id = r.int32()
    m.host = r.string("host", False)
    m.port = r.int32()
    m.rack = r.string("rack", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FetchResponseNodeEndpoint(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.node_id)
    w.string("host", m.host, False)
    write_i32_be(out, m.port)
    w.string("rack", m.rack, True)
    w.unknown_tags("FetchResponseNodeEndpoint", m.unknown_tagged_fields)


def read_tags_of_FetchResponse(r: Reader, m: Any, version: i64) -> None:
    m.node_endpoints = []
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0 and version >= 16:
            count = r.count("node_endpoints", False, 11)
            m.node_endpoints = [read_FetchResponseNodeEndpoint(r, version) for _ in range(count)]
            r.end_tag("FetchResponse.node_endpoints", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_FetchResponse(r: Reader, version: i64) -> Any:
    m: Any = _FetchResponse()
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    if version >= 7:
        m.error_code = r.int16()
        m.session_id = r.int32()
    else:
        m.error_code = 0
        m.session_id = 0
    count = r.count("responses", False, 3)
    m.responses = [read_FetchableTopicResponse(r, version) for _ in range(count)]
    read_tags_of_FetchResponse(r, m, version)
    return m


def _write_known_tags_of_FetchResponse(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if version >= 16 and m.node_endpoints != []:
        w = outer.inner()
        node_endpoints = m.node_endpoints
        w.array("node_endpoints", node_endpoints, False)
        for item in node_endpoints:
            write_FetchResponseNodeEndpoint(w, item, version)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_FetchResponse(w: Writer, m: Any, version: i64) -> None:
    if version <= 15 and m.node_endpoints != []:
        w.refuse("FetchResponse.node_endpoints")
    if w.flexible and (version >= 16 and m.node_endpoints != []):
        _write_known_tags_of_FetchResponse(w, m, version)
    else:
        w.unknown_tags("FetchResponse", m.unknown_tagged_fields)


def write_FetchResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    if version >= 7:
        write_i16_be(out, m.error_code)
        write_i32_be(out, m.session_id)
    elif m.session_id != 0:
        w.refuse("FetchResponse.session_id")
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_FetchableTopicResponse(w, item, version)
    write_tags_of_FetchResponse(w, m, version)
