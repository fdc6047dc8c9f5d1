"""Quotas of users, clients and addresses: describe and alter.

Mirrors: describeClientQuotas and alterClientQuotas of KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ...protocol.api import ApiKey
from ...protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from ...protocol.apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ..cluster import Cluster

MATCH_EXACT, MATCH_DEFAULT = 0, 1

# The entity of a quota: names by entity type, None for the default of a type.
Entity = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class EntityQuotas:
    """The quotas of an entity by their keys."""

    entity: Entity
    quotas: Mapping[str, float]


class Quotas:
    """`Quotas(cluster)`; each method raises ClientError if the cluster refuses."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, entity: Entity | None = None) -> list[EntityQuotas]:
        """The quotas of exactly this entity, or all."""
        components = [
            ComponentData(
                entity_type=kind,
                match_type=MATCH_DEFAULT if name is None else MATCH_EXACT,
                match=name,
            )
            for kind, name in (entity or {}).items()
        ]
        answer = await self._cluster.ask_anyone(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            DescribeClientQuotasRequest(components=components, strict=bool(components)),
            DescribeClientQuotasResponse,
        )
        asked = self._cluster.asks("describe_configs")
        asked.check(answer.error_code, answer.error_message, "cannot describe the quotas")
        return [
            EntityQuotas(
                entity={one.entity_type: one.entity_name for one in entry.entity},
                quotas={value.key: value.value for value in entry.values},
            )
            for entry in answer.entries or []
        ]

    async def alter(
        self, entity: Entity, values: Mapping[str, float], removed: Iterable[str] = ()
    ) -> None:
        """Set some quotas of an entity, and remove others."""
        entry = AlterClientQuotasRequestEntryData(
            entity=[
                AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                for kind, name in entity.items()
            ],
            ops=[
                *(OpData(key=key, value=value) for key, value in values.items()),
                *(OpData(key=key, remove=True) for key in removed),
            ],
        )
        answer = await self._cluster.ask_anyone(
            ApiKey.ALTER_CLIENT_QUOTAS,
            AlterClientQuotasRequest(entries=[entry]),
            AlterClientQuotasResponse,
        )
        asked = self._cluster.asks("alter_configs")
        for result in answer.entries:
            asked.check(result.error_code, result.error_message, "cannot change the quotas")
