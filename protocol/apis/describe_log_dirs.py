"""DescribeLogDirs: the log directories of a broker, and the replicas in them (KIP-113).

Tools and admin clients send it to the broker.
Versions: 2 is flexible; 3 has an error for the whole request; 4 the size of the volume (KIP-827);
5 cordoned directories (KIP-1066), of which there are none here.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import Api, Handling
from ..features import Later
from ..schema import Message, Struct, array, boolean, int16, int32, int64, message, string


class DescribableLogDirTopic(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


@message(api_key=35, kind="request", valid="0-5", flexible="2+")
class DescribeLogDirsRequest(Message):
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


class DescribeLogDirsTopic(Struct):
    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", ignorable=True)


@message(api_key=35, kind="response", valid="0-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)


API: Final = Api(
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    access=AccessRules((on_cluster(AclOperation.DESCRIBE),)),
    since="1.0",
    later=Later(5),
    handling=Handling.IN_TURNS,
)
