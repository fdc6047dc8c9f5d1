"""An authorizer for tests: it allows what it was told, and remembers what it was asked."""

from __future__ import annotations

from pybroker_kafka.broker.security.authorizer import Authorizer
from pybroker_kafka.broker.security.principal import KafkaPrincipal
from pybroker_kafka.protocol.acls import AclOperation, ResourceType

Question = tuple[AclOperation, ResourceType, str]


class Rules(Authorizer):
    """Allows `allowed`, and everything if that is None."""

    def __init__(self, allowed: set[Question] | None = None) -> None:
        self.version = 0
        self.allowed = allowed
        self.asked: list[Question] = []

    def change(self, allowed: set[Question] | None) -> None:
        self.allowed = allowed
        self.version += 1

    def allows(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        question = (operation, resource_type, name)
        self.asked.append(question)
        return self.allowed is None or question in self.allowed

    def allows_by_type(
        self,
        principal: KafkaPrincipal,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> bool:
        return self.allowed is None or any(
            question[:2] == (operation, resource_type) for question in self.allowed
        )
