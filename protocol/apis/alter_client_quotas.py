"""AlterClientQuotas: change the quotas of users, clients and addresses (KIP-546).

Tools and admin clients send it to any broker. An entity is a set of (type, name) pairs; a null
name is the default of its type.
Versions: 1 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import Api, Handling, elements_together
from ..schema import Message, Struct, array, boolean, float64, int16, int32, message, string


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


API: Final = Api(
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
    access=AccessRules((on_cluster(AclOperation.ALTER_CONFIGS),)),
    elements=(elements_together("entries", "entries"),),
    since="2.6",
    handling=Handling.WAITS,
)
