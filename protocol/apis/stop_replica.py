"""StopReplica: replicas that a broker stops, and perhaps deletes.

The controller sends it to brokers.
Versions: 1 is a flat list of partitions by topic, 3 gives leader epochs and a delete flag for each.
From broker epochs on (KIP-380: version 1) a restarted broker refuses requests meant for its
previous run.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import BROKERS_ONLY
from ..api_page import AT_EACH_TOO, Api, elements
from ..schema import Message, Struct, array, boolean, int16, int32, int64, message, string


class StopReplicaPartitionV0(Struct):
    topic_name: str = string("0")
    partition_index: int = int32("0")


class StopReplicaTopicV1(Struct):
    name: str = string("1-2")
    partition_indexes: list[int] = array("int32", "1-2")


class StopReplicaPartitionState(Struct):
    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+")


class StopReplicaTopicState(Struct):
    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")


@message(api_key=5, kind="request", valid="0-4", flexible="2+")
class StopReplicaRequest(Message):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


class StopReplicaPartitionError(Struct):
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@message(api_key=5, kind="response", valid="0-4", flexible="2+")
class StopReplicaResponse(Message):
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)


API: Final = Api(
    request=StopReplicaRequest,
    response=StopReplicaResponse,
    access=BROKERS_ONLY,
    elements=(
        elements("topic_states.partition_states", "partition_errors"),
        elements("topics.partition_indexes", "partition_errors", name="topic_name"),
        elements("ungrouped_partitions", "partition_errors"),
    ),
    failure=AT_EACH_TOO,
    is_exempt=True,
    makes_files=True,
)
