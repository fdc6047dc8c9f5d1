"""AlterConfigs: replace all overrides of resources.

Tools and admin clients send it to any broker, of a broker's own to itself.
Versions: 2 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import ALTER_CONFIGS
from ..api_page import Api, Handling, elements_together
from ..schema import Message, Struct, array, boolean, int8, int16, int32, message, string


class AlterConfigsRequestAlterableConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class AlterConfigsRequestAlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterConfigsRequestAlterableConfig] = array(AlterConfigsRequestAlterableConfig)


@message(api_key=33, kind="request", valid="0-2", flexible="2+")
class AlterConfigsRequest(Message):
    resources: list[AlterConfigsRequestAlterConfigsResource] = array(
        AlterConfigsRequestAlterConfigsResource
    )
    validate_only: bool = boolean()


class AlterConfigsResponseAlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=33, kind="response", valid="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResponseAlterConfigsResourceResponse] = array(
        AlterConfigsResponseAlterConfigsResourceResponse
    )


API: Final = Api(
    request=AlterConfigsRequest,
    response=AlterConfigsResponse,
    access=ALTER_CONFIGS,
    elements=(elements_together("resources", "responses"),),
    since="0.11",
    handling=Handling.WAITS,
)
