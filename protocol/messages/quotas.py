"""Client quotas (KIP-546): DescribeClientQuotas and AlterClientQuotas.

An entity is a set of (type, name) pairs; a null name is the default of its type. Version 1 is
flexible.

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..schema import (
    Message,
    Struct,
    array,
    boolean,
    float64,
    int8,
    int16,
    int32,
    message,
    string,
)


class ComponentData(Struct):
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


@message(api_key=48, kind="request", valid="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class DescribeClientQuotasResponseEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class ValueData(Struct):
    key: str = string()
    value: float = float64()


class DescribeClientQuotasResponseEntryData(Struct):
    entity: list[DescribeClientQuotasResponseEntityData] = array(
        DescribeClientQuotasResponseEntityData
    )
    values: list[ValueData] = array(ValueData)


@message(api_key=48, kind="response", valid="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[DescribeClientQuotasResponseEntryData] | None = array(
        DescribeClientQuotasResponseEntryData, nullable="0+"
    )


class AlterClientQuotasRequestEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[AlterClientQuotasRequestEntityData] = array(AlterClientQuotasRequestEntityData)
    ops: list[OpData] = array(OpData)


@message(api_key=49, kind="request", valid="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


class AlterClientQuotasResponseEntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entity: list[AlterClientQuotasResponseEntityData] = array(AlterClientQuotasResponseEntityData)


@message(api_key=49, kind="response", valid="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
