"""The data and orders of the page about permissions: ACLs, users, quotas and delegation tokens.

Invariant: a password goes to the cluster as a salted hash, and nowhere else; a token's HMAC is
shown once, to its creator.
"""

from __future__ import annotations

import base64
from typing import Any, Final

from ..client.admin.acls import Acl
from ..client.admin.rows import Row, acl_rows, quota_rows, token_row, user_rows
from ..protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ..protocol.apis.delete_acls import DeleteAclsFilter
from ..protocol.sasl import MECHANISMS
from ..protocol.sasl.scram import MIN_ITERATIONS
from .asked import Wrong, number, text
from .collector import Collector

LIST_SECONDS: Final = 3.0
ROWS_MAX: Final = 2000
HOUR_MS: Final = 3_600_000
AT_ONCE: Final = -1
BY_BROKERS: Final = -1  # as long as they let it live


async def acl_list(collector: Collector) -> list[Row]:
    """A row an ACL. Raises ClientError."""

    async def ask() -> list[Row]:
        return acl_rows(await collector.admin.acls.list())

    return (await collector.shared.get("acls", LIST_SECONDS, ask))[:ROWS_MAX]


async def user_list(collector: Collector) -> list[Row]:
    """A row a user and mechanism. Raises ClientError."""

    async def ask() -> list[Row]:
        return user_rows(await collector.admin.users.list())

    return (await collector.shared.get("users", LIST_SECONDS, ask))[:ROWS_MAX]


async def quota_list(collector: Collector) -> list[Row]:
    """A row a quota of an entity: types with names, null: a type's default. Raises ClientError."""

    async def ask() -> list[Row]:
        return quota_rows(await collector.admin.quotas.describe())

    return (await collector.shared.get("quotas", LIST_SECONDS, ask))[:ROWS_MAX]


async def token_list(collector: Collector) -> list[Row]:
    """A row a token, without its HMAC. Raises ClientError."""

    async def ask() -> list[Row]:
        return [token_row(one) for one in await collector.admin.tokens.list()]

    return (await collector.shared.get("tokens", LIST_SECONDS, ask))[:ROWS_MAX]


async def order_acl(collector: Collector, asked: dict[str, Any]) -> dict[str, str]:
    """`{"do": add | remove}` and an ACL in the words of `acl_list`. Raises Wrong, ClientError."""
    what, acl = text(asked, "do"), _acl(asked)
    if what == "add":
        await collector.admin.acls.create([acl])
        return {"done": "the ACL is added"}
    if what != "remove":
        raise Wrong(f"{what!r} is no command for an ACL")
    wanted = DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.resource_name,
        pattern_type_filter=acl.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    gone = await collector.admin.acls.delete([wanted])
    return {"done": "the ACL is removed" if gone else "there was no such ACL any more"}


def _acl(asked: dict[str, Any]) -> Acl:
    """Raises Wrong."""
    try:
        resource = ResourceType[text(asked, "resource").upper().replace("-", "_")]
        found = Acl(
            resource_type=resource,
            resource_name=CLUSTER_NAME if resource is ResourceType.CLUSTER else text(asked, "name"),
            pattern_type=PatternType[text(asked, "pattern", "literal").upper()],
            principal=":".join(_principal(text(asked, "principal"))),
            host=text(asked, "host", "") or WILDCARD,
            operation=AclOperation[text(asked, "operation").upper()],
            permission=AclPermission[text(asked, "permission").upper()],
        )
    except KeyError as error:
        raise Wrong(f"no ACL has {error.args[0].lower()!r}") from None
    if not found.resource_name:
        raise Wrong("name what the ACL is for; * is everything of its kind")
    return found


def _principal(given: str) -> tuple[str, str]:
    """Its type and its name: `alice` is short for `User:alice`. Raises Wrong."""
    kind, colon, name = given.partition(":")
    if not (name if colon else kind):
        raise Wrong("name the user")
    return (kind, name) if colon else ("User", kind)


async def order_user(collector: Collector, asked: dict[str, Any]) -> dict[str, str]:
    """`{"do": "set", "user", "password", "mechanism"}`, or "remove". Raises Wrong, ClientError."""
    what, user = text(asked, "do"), text(asked, "user")
    kind = MECHANISMS.get(text(asked, "mechanism"))
    if kind is None or not user:
        raise Wrong(f"a user has a name, and one of: {', '.join(sorted(MECHANISMS))}")
    users = collector.admin.users
    if what == "remove":
        await users.remove_password(user, [kind])
        return {"done": f"{user} has no password for {kind.mechanism} any more"}
    if what != "set":
        raise Wrong(f"{what!r} is no command for a user")
    password = text(asked, "password")
    if not password:
        raise Wrong("the password is empty; give one")
    await users.set_password(user, password, [kind], MIN_ITERATIONS)
    return {"done": f"the password of {user} for {kind.mechanism} is set"}


async def order_quota(collector: Collector, asked: dict[str, Any]) -> dict[str, str]:
    """`entity`: types with names or null; `quota`; `value`: a number, or null to remove it.

    Raises Wrong, ClientError.
    """
    entity, key, value = asked.get("entity"), text(asked, "quota"), asked.get("value")
    if not isinstance(entity, dict) or not entity:
        raise Wrong("name whose quota it is: a user, a client id or an address")
    if not all(name is None or isinstance(name, str) for name in entity.values()):
        raise Wrong("an entity's names are texts")
    if value is None:
        await collector.admin.quotas.alter(entity, {}, [key])
        return {"done": f"{key} is removed"}
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise Wrong("a quota is a number")
    await collector.admin.quotas.alter(entity, {key: float(value)})
    return {"done": f"{key} is {value:,.12g}"}


async def order_token(collector: Collector, asked: dict[str, Any]) -> dict[str, str]:
    """`{"do": "create", "renewer", "hours"}`, or renew or expire with `id`.

    The answer to `create` has the HMAC. Raises Wrong, ClientError.
    """
    what, tokens = text(asked, "do"), collector.admin.tokens
    if what == "create":
        renewer = text(asked, "renewer", "")
        hours = number(asked, "hours", 0, bits=31)
        made = await tokens.create(
            None, [_principal(renewer)] if renewer else [], hours * HOUR_MS or BY_BROKERS
        )
        hmac = base64.b64encode(made.hmac).decode()
        return {"done": f"made token {made.token_id}", "id": made.token_id, "hmac": hmac}
    name = text(asked, "id")
    token = await tokens.find(name)
    if what == "renew":
        await tokens.renew(token, BY_BROKERS)
        return {"done": f"token {name} is renewed"}
    if what == "expire":
        await tokens.expire(token, AT_ONCE)
        return {"done": f"token {name} has ended"}
    raise Wrong(f"{what!r} is no command for a token")
