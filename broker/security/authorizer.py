"""The interface that decides whether a principal may do an operation.

Job: `Authorizer`, whose questions use the vocabulary of `protocol.acls`. The page of each API lists
the questions of its requests.

Mirrors `org.apache.kafka.server.authorizer.Authorizer`.
"""

from __future__ import annotations

from typing import Protocol

from ...protocol.acls import AclOperation, ResourceType
from .principal import KafkaPrincipal


class Authorizer(Protocol):
    """Decides by its present ACLs; never waits."""

    version: int
    """Goes up with each change of what it knows: a decision of before may be another now."""

    def allows(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """Whether `principal`, connected from `host`, may do this to the resource `name`."""
        ...

    def allows_by_type(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> bool:
        """Whether `principal` may do this to any resource of that type (KIP-679)."""
        ...
