"""DescribeClientQuotas: the quotas of users, clients and addresses (KIP-546).

Tools and admin clients send it to any broker. An entity is a set of (type, name) pairs; a null
name is the default of its type.
Versions: 1 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import Api, Failure, Handling
from ..schema import Message, Struct, array, boolean, float64, int8, int16, int32, message, string


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


API: Final = Api(
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
    access=AccessRules((on_cluster(AclOperation.DESCRIBE_CONFIGS),)),
    failure=Failure(values={"entries": None}),
    since="2.6",
    handling=Handling.WAITS,
)
