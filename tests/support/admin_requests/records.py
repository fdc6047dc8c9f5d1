"""Records, groups, transactions, the cluster and its features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pybroker_kafka.protocol.apis.delete_groups import DeleteGroupsRequest
from pybroker_kafka.protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pybroker_kafka.protocol.apis.describe_cluster import DescribeClusterRequest
from pybroker_kafka.protocol.apis.describe_groups import DescribeGroupsRequest
from pybroker_kafka.protocol.apis.describe_producers import DescribeProducersRequest, TopicRequest
from pybroker_kafka.protocol.apis.describe_transactions import DescribeTransactionsRequest
from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.apis.list_transactions import ListTransactionsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pybroker_kafka.protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.admin_requests.cases import TIMEOUT_MS, Case


def cut(topics: Mapping[str, Mapping[int, int]]) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def forgotten(group: str, topics: Mapping[str, Sequence[int]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for name, indexes in topics.items()
        ],
    )


def feature(*updates: tuple[str, int, int], validate_only: bool = True) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(
                feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind > 1
            )
            for name, level, kind in updates
        ],
        validate_only=validate_only,
    )


OTHERS = [
    *(Case(f"cut {name}", cut(topics)) for name, topics in {
        "nothing": {},
        "at the start": {"known": {0: 0}},
        "at the end": {"known": {0: -1}},
        "beyond": {"known": {0: 77}},
        "below": {"known": {0: -2}},
        "unknown partition": {"known": {9: 0}},
        "negative partition": {"known": {-1: 0}},
        "unknown topic": {"unknown": {0: 0}},
        "illegal topic": {"a b": {0: 0}},
        "compacted": {"configured": {0: 0}},
        "internal": {"__consumer_offsets": {0: 0}},
    }.items()),
    *(Case(f"groups gone: {names}", DeleteGroupsRequest(groups_names=names))
      for names in ([], ["unknown"], [""], ["unknown", "unknown"])),
    *(Case(f"offsets gone {name}", forgotten(group, topics)) for name, (group, topics) in {
        "unknown": ("unknown", {"known": [0]}),
        "without a name": ("", {"known": [0]}),
        "of nothing": ("unknown", {}),
        "unknown topic": ("unknown", {"unknown": [0]}),
    }.items()),
    *(Case(f"groups {names}", DescribeGroupsRequest(groups=names))
      for names in ([], ["unknown"], [""])),
    *(Case(f"feature {name}", feature(*updates)) for name, updates in {
        "none": [],
        "unknown": [("no.such", 1, 1)],
        "metadata": [("metadata.version", 17, 1)],
        "without a name": [("", 1, 1)],
        "deleted": [("no.such", 0, 2)],
        "deleted as an upgrade": [("no.such", 0, 1)],
        "negative": [("no.such", -1, 1)],
        "of no type": [("no.such", 1, 0)],
        "of a high type": [("no.such", 1, 9)],
        "twice": [("no.such", 1, 1), ("no.such", 2, 1)],
    }.items()),
    *(Case(f"coordinator {kind} {keys}", FindCoordinatorRequest(
        key_type=kind, coordinator_keys=keys, key=keys[0] if keys else ""), (int(kind > 0), 1000))
      for kind in (0, 1, 2, 9) for keys in ([], ["g"], [""])),
    Case("transactions", ListTransactionsRequest(state_filters=["Odd", "Ongoing"])),
    Case("transactions that are unknown", DescribeTransactionsRequest(
        transactional_ids=["unknown", ""])),
    Case("producers", DescribeProducersRequest(topics=[
        TopicRequest(name="known", partition_indexes=[0, 9]),
        TopicRequest(name="unknown", partition_indexes=[0]),
        TopicRequest(name="a b", partition_indexes=[0])])),
    *(Case(f"creation by asking for {names}", MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names]), (12, 12))
      for names in (["asked"], ["x.T", "x_T"], ["x_T"], ["a b"], ["__transaction_states"])),
    Case("cluster", DescribeClusterRequest()),
    Case("cluster of controllers", DescribeClusterRequest(endpoint_type=2), (1, 1)),
    Case("cluster of nobody", DescribeClusterRequest(endpoint_type=9), (1, 1)),
]  # fmt: skip
