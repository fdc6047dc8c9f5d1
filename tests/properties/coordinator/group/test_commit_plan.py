"""A commit by its plan is what the same commit is without one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.coordinator.group.commit_plan import FIRST_VERSION, plan_of
from pybroker_kafka.coordinator.group.offsets import OffsetAndMetadata
from pybroker_kafka.coordinator.group.records import offset_commit_key, offset_commit_value
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.records.plain_batch import build_plain_batch

MAX_METADATA = 4096
OFFSET = st.integers(-(2**63), 2**63 - 1)
TIME = st.integers(0, 2**62)
METADATA = st.one_of(st.none(), st.text(max_size=200))
TOPIC = st.sampled_from(["t", "topic-é", "x" * 249, "y" * 100])


def entry(
    index: int, offset: int, epoch: int, metadata: str | None
) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=epoch,
        committed_metadata=metadata,
    )


ENTRIES = st.builds(entry, st.integers(0, 2**31 - 1), OFFSET, st.integers(-1, 2**31 - 1), METADATA)
TOPICS = st.dictionaries(
    TOPIC, st.lists(ENTRIES, max_size=70, unique_by=lambda e: e.partition_index), min_size=1
)


@given(TOPICS, st.text(max_size=30), TIME, st.data())
def test_batch_and_values(
    topics: dict[str, list[OffsetCommitRequestPartition]],
    group: str,
    now_ms: int,
    data: st.DataObject,
) -> None:
    request = OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
    )
    entries = [((topic, e.partition_index), e) for topic, es in topics.items() for e in es]
    plan = plan_of(request, FIRST_VERSION, MAX_METADATA)
    if not entries:
        assert plan is None
        return
    assert plan is not None
    for _ in range(2):
        values = {
            key: OffsetAndMetadata(
                e.committed_offset,
                e.committed_leader_epoch,
                e.committed_metadata or "",
                now_ms + 7,
                since_ms=now_ms,
            )
            for key, e in entries
        }
        records = [(offset_commit_key(group, k), offset_commit_value(v)) for k, v in values.items()]
        assert plan.values(now_ms, now_ms + 7) == values
        assert list(plan.values(now_ms, now_ms + 7)) == list(values)
        assert plan.batch(now_ms + 7) == build_plain_batch(now_ms + 7, records)
        for _, e in entries:
            e.committed_offset = data.draw(OFFSET)
        now_ms += 1


def test_what_has_no_plan() -> None:
    def request(*entries: OffsetCommitRequestPartition) -> OffsetCommitRequest:
        topic = OffsetCommitRequestTopic(name="t", partitions=list(entries))
        return OffsetCommitRequest(group_id="g", topics=[topic])

    one = entry(0, 1, -1, "")
    assert plan_of(request(one), FIRST_VERSION, MAX_METADATA) is not None
    assert plan_of(request(one), FIRST_VERSION - 1, MAX_METADATA) is None
    assert plan_of(request(one, entry(0, 2, -1, "")), FIRST_VERSION, MAX_METADATA) is None
    assert plan_of(request(), FIRST_VERSION, MAX_METADATA) is None
    long = entry(0, 1, -1, "\U0001f600" * (MAX_METADATA // 2 + 1))
    assert plan_of(request(long), FIRST_VERSION, MAX_METADATA) is None
