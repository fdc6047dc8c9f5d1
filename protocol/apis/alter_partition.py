"""AlterPartition: the in-sync replicas of a partition change (KIP-497).

Leaders send it to the controller.
Versions: 1 adds the recovery state, 2 topic ids, 3 broker epochs of the ISR (KIP-903).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import BROKERS_ONLY
from ..api_page import Api, Handling, elements
from ..schema import Message, Struct, array, int8, int16, int32, int64, message, string, uuid


class BrokerState(Struct):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class AlterPartitionRequestPartitionData(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array("int32", "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32()


class AlterPartitionRequestTopicData(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData)


@message(api_key=56, kind="request", valid="0-3", flexible="0+")
class AlterPartitionRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData)


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    leader_recovery_state: int = int8("1+", ignorable=True)
    partition_epoch: int = int32()


class AlterPartitionResponseTopicData(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = array(
        AlterPartitionResponsePartitionData
    )


@message(api_key=56, kind="response", valid="0-3", flexible="0+")
class AlterPartitionResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)


API: Final = Api(
    request=AlterPartitionRequest,
    response=AlterPartitionResponse,
    access=BROKERS_ONLY,
    elements=(elements("topics.partitions", "topics.partitions"),),
    is_exempt=True,
    handling=Handling.WAITS,
)
