"""DescribeConfigs: the configuration of topics, brokers and loggers.

Tools and admin clients send it: of a broker to itself, of topics to any broker.
Versions: 1 adds synonyms and sources (KIP-226); 3 types and documentation (KIP-569); 4 is
flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements_together
from ..schema import Message, Struct, array, boolean, int8, int16, int32, message, string


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array("string", nullable="0+")


@message(api_key=32, kind="request", valid="0-4", flexible="4+")
class DescribeConfigsRequest(Message):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeConfigsSynonym(Struct):
    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    is_default: bool = boolean("0")
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


@message(api_key=32, kind="response", valid="0-4", flexible="4+")
class DescribeConfigsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)


API: Final = Api(
    request=DescribeConfigsRequest,
    response=DescribeConfigsResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "resource_name"),),
                "of a topic: TOPIC_AUTHORIZATION_FAILED for it",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP, "resource_name"),),
                "of a group, once features are finalized: GROUP_AUTHORIZATION_FAILED for it",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),),
                "of anything else: CLUSTER_AUTHORIZATION_FAILED for it",
            ),
        )
    ),
    elements=(elements_together("resources", "results"),),
    since="0.11",
    handling=Handling.WAITS,
)
