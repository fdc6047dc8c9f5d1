"""ListConfigResources: the names of resources that have configs (KIP-714, KIP-1142).

Tools and admin clients send it to any broker.
Versions: 0 knows client metrics only, and was called ListClientMetricsResources; 1 asks for types,
of which none means all.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import Api, Handling
from ..features import Later
from ..schema import Message, Struct, array, int8, int16, int32, message, string


@message(api_key=74, kind="request", valid="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    resource_types: list[int] = array("int8", "1+")


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


@message(api_key=74, kind="response", valid="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)


API: Final = Api(
    request=ListConfigResourcesRequest,
    response=ListConfigResourcesResponse,
    access=AccessRules((on_cluster(AclOperation.DESCRIBE_CONFIGS),)),
    since="3.7",
    later=Later(0),
    needs_metadata=True,
    handling=Handling.IN_TURNS,
)
