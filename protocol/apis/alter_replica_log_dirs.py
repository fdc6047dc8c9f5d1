"""AlterReplicaLogDirs: move replicas to other log directories of a broker (KIP-113).

Tools and admin clients send it to the broker.
Versions: 2 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import Api, elements
from ..schema import Message, Struct, array, int16, int32, message, string


class AlterReplicaLogDirTopic(Struct):
    name: str = string()
    partitions: list[int] = array("int32")


class AlterReplicaLogDir(Struct):
    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@message(api_key=34, kind="request", valid="0-2", flexible="2+")
class AlterReplicaLogDirsRequest(Message):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@message(api_key=34, kind="response", valid="0-2", flexible="2+")
class AlterReplicaLogDirsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)


API: Final = Api(
    request=AlterReplicaLogDirsRequest,
    response=AlterReplicaLogDirsResponse,
    access=AccessRules((on_cluster(AclOperation.ALTER),)),
    elements=(elements("dirs.topics.partitions", "results.partitions", name="topic_name"),),
    since="1.0",
)
