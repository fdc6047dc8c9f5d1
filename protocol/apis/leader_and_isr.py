"""LeaderAndIsr: the replicas that a broker has, and their leaders.

The controller sends it to brokers.
Versions: partitions stand in one list until 1 and by topic from 2 on; 3 adds reassignment states; 5
topic ids; 6 the recovery state of leaders (KIP-704); 7 the KRaft flag (KIP-866). From broker epochs
on (KIP-380: version 2) a restarted broker refuses requests meant for its previous run.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import BROKERS_ONLY
from ..api_page import AT_EACH_TOO, Api, elements
from ..schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    uuid,
)


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    partition_epoch: int = int32()
    replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32", "3+", ignorable=True)
    removing_replicas: list[int] = array("int32", "3+", ignorable=True)
    is_new: bool = boolean("1+", ignorable=True)
    leader_recovery_state: int = int8("6+")


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string("2+")
    topic_id: bytes = uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@message(api_key=4, kind="request", valid="0-7", flexible="4+")
class LeaderAndIsrRequest(Message):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("7+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1"
    )
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    error_code: int = int16()


class LeaderAndIsrTopicError(Struct):
    topic_id: bytes = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


@message(api_key=4, kind="response", valid="0-7", flexible="4+")
class LeaderAndIsrResponse(Message):
    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")


API: Final = Api(
    request=LeaderAndIsrRequest,
    response=LeaderAndIsrResponse,
    access=BROKERS_ONLY,
    elements=(
        elements("topic_states.partition_states", "topics.partition_errors"),
        elements("topic_states.partition_states", "partition_errors"),
        elements("ungrouped_partition_states", "partition_errors"),
    ),
    failure=AT_EACH_TOO,
    is_exempt=True,
    makes_files=True,
)
