"""Configuration of topics and brokers: DescribeConfigs, AlterConfigs and IncrementalAlterConfigs.

DescribeConfigs: 1 adds synonyms and sources (KIP-226); 3 types and documentation (KIP-569); 4 is
flexible. AlterConfigs replaces all overrides of a resource; IncrementalAlterConfigs (KIP-339)
changes single ones by operation.

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

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
