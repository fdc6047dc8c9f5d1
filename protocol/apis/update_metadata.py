"""UpdateMetadata: the data with which each broker answers clients about the cluster.

The controller sends it to brokers.
Versions: partitions stand in one list until 4 and by topic from 5 on; 2 adds racks, 3 listener
names, 7 topic ids. From broker epochs on (KIP-380: version 5) a restarted broker refuses requests
meant for its previous run.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import BROKERS_ONLY
from ..api_page import Api, elements
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


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    zk_version: int = int32()
    replicas: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", "4+", ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: str = string("5+")
    topic_id: bytes = uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")


class UpdateMetadataEndpoint(Struct):
    port: int = int32("1+")
    host: str = string("1+")
    listener: str = string("3+", ignorable=True)
    security_protocol: int = int16("1+")


class UpdateMetadataBroker(Struct):
    id: int = int32()
    v0_host: str = string("0", ignorable=True)
    v0_port: int = int32("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", ignorable=True)
    rack: str | None = string("2+", nullable="0+", ignorable=True)


@message(api_key=6, kind="request", valid="0-8", flexible="6+")
class UpdateMetadataRequest(Message):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4"
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


@message(api_key=6, kind="response", valid="0-8", flexible="6+")
class UpdateMetadataResponse(Message):
    error_code: int = int16()


API: Final = Api(
    request=UpdateMetadataRequest,
    response=UpdateMetadataResponse,
    access=BROKERS_ONLY,
    elements=(elements("topic_states.partition_states"), elements("ungrouped_partition_states")),
    is_exempt=True,
)
