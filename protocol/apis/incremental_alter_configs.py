"""IncrementalAlterConfigs: change single overrides of resources by operation (KIP-339).

Tools and admin clients send it to any broker, of a broker's own to itself.
Versions: 1 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import ALTER_CONFIGS
from ..api_page import Api, Handling, elements_together
from ..schema import Message, Struct, array, boolean, int8, int16, int32, message, string


class IncrementalAlterConfigsRequestAlterableConfig(Struct):
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class IncrementalAlterConfigsRequestAlterConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[IncrementalAlterConfigsRequestAlterableConfig] = array(
        IncrementalAlterConfigsRequestAlterableConfig
    )


@message(api_key=44, kind="request", valid="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Message):
    resources: list[IncrementalAlterConfigsRequestAlterConfigsResource] = array(
        IncrementalAlterConfigsRequestAlterConfigsResource
    )
    validate_only: bool = boolean()


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()


@message(api_key=44, kind="response", valid="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: int = int32()
    responses: list[IncrementalAlterConfigsResponseAlterConfigsResourceResponse] = array(
        IncrementalAlterConfigsResponseAlterConfigsResourceResponse
    )


API: Final = Api(
    request=IncrementalAlterConfigsRequest,
    response=IncrementalAlterConfigsResponse,
    access=ALTER_CONFIGS,
    elements=(elements_together("resources", "responses"),),
    since="2.3",
    handling=Handling.WAITS,
)
