"""ACLs: create, list and delete.

Mirrors: createAcls, describeAcls and deleteAcls of KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final, TypeVar

from ...protocol.acls import AclOperation, AclPermission, PatternType, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ...protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ...protocol.apis.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..cluster import Cluster

FIRST_WITH_PATTERNS = 1  # of all three: before 2.0 all names are literal
ANY, LITERAL = 1, 3  # kinds of pattern


@dataclass(frozen=True, slots=True)
class Acl:
    """An ACL; the numbers (kind of resource and pattern, and so on) are those of the wire."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int


EVERY_ACL: Final = DescribeAclsRequest(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=AclOperation.ANY,
    permission_type=AclPermission.ANY,
)
Matched = list[Acl]  # a method of the class is called `list`


class Acls:
    """`Acls(cluster)`; each method raises ClientError if the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(self, acls: Sequence[Acl]) -> None:
        """Create ACLs. Raises Refused for the first that is refused."""
        creations = [
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
        answer = await self._cluster.ask_anyone(
            ApiKey.CREATE_ACLS, CreateAclsRequest(creations=creations), CreateAclsResponse
        )
        asked = self._cluster.asks("alter")
        for result in answer.results:
            asked.check(result.error_code, result.error_message, "cannot add an ACL")

    async def list(self, wanted: DescribeAclsRequest = EVERY_ACL) -> Matched:
        """The ACLs that match; all by default."""

        def question(version: int) -> DescribeAclsRequest:
            return wanted if version >= FIRST_WITH_PATTERNS else _literal(wanted)

        answer = await self._cluster.ask_anyone(
            ApiKey.DESCRIBE_ACLS, question, DescribeAclsResponse
        )
        asked = self._cluster.asks("describe")
        asked.check(answer.error_code, answer.error_message, "cannot list the ACLs")
        return [
            Acl(
                resource_type=found.resource_type,
                resource_name=found.resource_name,
                pattern_type=found.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission=acl.permission_type,
            )
            for found in answer.resources
            for acl in found.acls
        ]

    async def delete(self, filters: Sequence[DeleteAclsFilter]) -> Matched:
        """Delete the ACLs that match a filter, and return them."""

        def question(version: int) -> DeleteAclsRequest:
            if version >= FIRST_WITH_PATTERNS:
                return DeleteAclsRequest(filters=list(filters))
            return DeleteAclsRequest(filters=list(map(_literal, filters)))

        answer = await self._cluster.ask_anyone(ApiKey.DELETE_ACLS, question, DeleteAclsResponse)
        asked = self._cluster.asks("alter")
        deleted = []
        for result in answer.filter_results:
            asked.check(result.error_code, result.error_message, "cannot remove ACLs")
            for acl in result.matching_acls:
                asked.check(acl.error_code, acl.error_message, "cannot remove an ACL")
                deleted.append(
                    Acl(
                        resource_type=acl.resource_type,
                        resource_name=acl.resource_name,
                        pattern_type=acl.pattern_type,
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission=acl.permission_type,
                    )
                )
        return deleted


F = TypeVar("F", DescribeAclsRequest, DeleteAclsFilter)


def _literal(wanted: F) -> F:
    """The same for a broker that supports literal names only."""
    found = copy(wanted)
    if found.pattern_type_filter == ANY:
        found.pattern_type_filter = LITERAL
    return found
