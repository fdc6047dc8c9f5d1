"""The two users of a secured cluster, made at its first start over the brokers' own listener.

`admin` is a super user. `user` may do what programs do that write and read: create topics, write
and read them, be in groups, use transactions; not delete or alter anything, nor look into the
cluster's own topics. Both are made if there is no admin; later starts change only regenerated
passwords, so that a removed `user`, or a removed ACL of it, stays removed.

Done once both can log in at every broker: changes of passwords and ACLs go through ZooKeeper, and
reach the brokers a moment after the answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import trio

from ..client.admin.acls import Acl, Acls
from ..client.admin.users import Users
from ..client.cluster import Cluster
from ..client.connection import Connection, Connections
from ..client.errors import ClientError, LoginError
from ..client.security.connector import Connector
from ..client.security.settings import connector_from
from ..protocol.acls import WILDCARD, AclOperation, AclPermission, PatternType, ResourceType
from ..protocol.api import ApiKey
from ..protocol.apis.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..protocol.sasl import ScramHash
from ..protocol.sasl.scram import MIN_ITERATIONS
from ..protocol.topics import INTERNAL_TOPICS
from .secured import ADMIN, USER, SecurityFiles

WAIT_SECONDS = 20.0
POLL_SECONDS = 0.01

USER_MAY = {
    ResourceType.TOPIC: ("CREATE", "WRITE", "READ", "DESCRIBE", "DESCRIBE_CONFIGS"),
    ResourceType.GROUP: ("READ", "DESCRIBE"),
    ResourceType.TRANSACTIONAL_ID: ("WRITE", "DESCRIBE"),
}


def user_acls() -> list[Acl]:
    """The ACLs of `user`: its permissions, and the denials for the cluster's own topics."""
    allowed = [
        _acl(kind, WILDCARD, AclOperation[name], AclPermission.ALLOW)
        for kind, names in USER_MAY.items()
        for name in names
    ]
    denied = [
        _acl(ResourceType.TOPIC, topic, operation, AclPermission.DENY)
        for topic in sorted(INTERNAL_TOPICS)
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    return allowed + denied


def _acl(kind: ResourceType, name: str, operation: AclOperation, permission: AclPermission) -> Acl:
    return Acl(
        resource_type=kind,
        resource_name=name,
        pattern_type=PatternType.LITERAL,
        principal=f"User:{USER}",
        host=WILDCARD,
        operation=operation,
        permission=permission,
    )


async def make_first_users(
    files: SecurityFiles, member_address: str, brokers: Sequence[tuple[str, int]]
) -> None:
    """`member_address`: INTERNAL of any broker; `brokers`: where all of them listen for clients.

    Raises ClientError.
    """
    async with Cluster(member_address, security=files.internal_settings()) as cluster:
        users, acls = sorted(files.new_users, reverse=True), list[Acl]()
        if not await Users(cluster).list([ADMIN]):
            users, acls = [USER, ADMIN], user_acls()
            await Acls(cluster).create(acls)
        if not users:
            return
        for user in users:
            await Users(cluster).set_password(
                user, files.password(user), list(ScramHash), MIN_ITERATIONS
            )
        with trio.move_on_after(WAIT_SECONDS) as limit:
            async with trio.open_nursery() as nursery:
                for address in brokers:
                    nursery.start_soon(_wait_for_broker, files, users, address, len(acls))
    if limit.cancelled_caught:
        raise ClientError(f"the first users cannot log in after {WAIT_SECONDS:.0f} s")


async def _wait_for_broker(
    files: SecurityFiles, users: Sequence[str], address: tuple[str, int], acl_count: int
) -> None:
    """Wait until these users can log in at the broker, and it has all their ACLs."""
    request = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=f"User:{USER}",
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=AclPermission.ANY,
    )
    for user in users:
        async with _logged_in(address, connector_from(files.client_settings(user))):
            pass
    if not acl_count:
        return
    async with _logged_in(address, connector_from(files.client_settings(ADMIN))) as connection:
        known = 0
        while known < acl_count:
            answer = await connection.request(ApiKey.DESCRIBE_ACLS, request, DescribeAclsResponse)
            known = sum(len(found.acls) for found in answer.resources)
            await trio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _logged_in(address: tuple[str, int], connector: Connector) -> AsyncIterator[Connection]:
    async with Connections() as connections:
        connection = None
        while connection is None:
            with suppress(LoginError):
                connection = await connections.open(*address, connector)
            if connection is None:
                await trio.sleep(POLL_SECONDS)
        yield connection
