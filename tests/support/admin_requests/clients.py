"""What clients may do: quotas, credentials of SCRAM, ACLs and delegation tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pybroker_kafka.protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from pybroker_kafka.protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from pybroker_kafka.protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker_kafka.protocol.apis.describe_acls import DescribeAclsRequest
from pybroker_kafka.protocol.apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from pybroker_kafka.protocol.apis.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pybroker_kafka.protocol.apis.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from pybroker_kafka.protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest
from pybroker_kafka.protocol.apis.renew_delegation_token import RenewDelegationTokenRequest
from tests.support.admin_requests.cases import (
    Case,
)

# Quotas, credentials, ACLs


def quota(
    entity: Sequence[tuple[str, str | None]], *ops: tuple[str, float, bool], last: bool = False
) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[
                    AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                ops=[OpData(key=key, value=value, remove=remove) for key, value, remove in ops],
            )
        ],
        validate_only=not last,
    )


RATE = ("producer_byte_rate", 1000.0, False)


def quotas_of(
    *components: tuple[str, int, str | None], strict: bool = False
) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match, match=name)
            for kind, match, name in components
        ],
        strict=strict,
    )


ODD_QUOTAS: dict[
    str, tuple[Sequence[tuple[str, str | None]], Sequence[tuple[str, float, bool]]]
] = {
    "of a user": ([("user", "u")], [RATE]),
    "of all users": ([("user", None)], [RATE]),
    "of a client": ([("client-id", "c")], [RATE]),
    "of both": ([("user", "u"), ("client-id", "c")], [RATE]),
    "of an address": ([("ip", "1.2.3.4")], [("connection_creation_rate", 5.0, False)]),
    "of an unknown address": ([("ip", "not an ip")], [("connection_creation_rate", 5.0, False)]),
    "of an address with another key": ([("ip", "1.2.3.4")], [RATE]),
    "of a user with an address' key": ([("user", "u")], [("connection_creation_rate", 5.0, False)]),
    "of a user and an address": ([("user", "u"), ("ip", "1.2.3.4")], [RATE]),
    "of nobody": ([], [RATE]),
    "of a user without a name": ([("user", "")], [RATE]),
    "of an unknown kind": ([("planet", "u")], [RATE]),
    "of a user twice": ([("user", "u"), ("user", "v")], [RATE]),
    "without a key": ([("user", "u")], []),
    "with an unknown key": ([("user", "u")], [("no_such", 1.0, False)]),
    "of nothing": ([("user", "u")], [("producer_byte_rate", 0.0, False)]),
    "below nothing": ([("user", "u")], [("producer_byte_rate", -1.0, False)]),
    "of a half": ([("user", "u")], [("producer_byte_rate", 0.5, False)]),
    "of an odd number": ([("user", "u")], [("request_percentage", float("nan"), False)]),
    "of a huge number": ([("user", "u")], [("producer_byte_rate", 1e30, False)]),
    "removed": ([("user", "u")], [("producer_byte_rate", 0.0, True)]),
    "removed with an unknown key": ([("user", "u")], [("no_such", 0.0, True)]),
    "said twice": ([("user", "u")], [RATE, RATE]),
}
QUOTAS = [
    *(Case(f"quota {name}", quota(entity, *ops)) for name, (entity, ops) in ODD_QUOTAS.items()),
    Case("quotas of nobody", quotas_of()),
    Case("quotas of a user", quotas_of(("user", 0, "u"))),
    Case("quotas of default users", quotas_of(("user", 1, None))),
    Case("quotas of any user", quotas_of(("user", 2, None))),
    Case("quotas of a user twice", quotas_of(("user", 0, "u"), ("user", 0, "v"))),
    Case("quotas of an unknown kind", quotas_of(("planet", 0, "u"))),
    Case("quotas of no kind", quotas_of(("", 0, "u"))),
    Case("quotas by an unknown match", quotas_of(("user", 9, "u"))),
    Case("quotas of a user without a name", quotas_of(("user", 0, None))),
    Case("quotas of default users with a name", quotas_of(("user", 1, "u"))),
    Case("quotas of any user with a name", quotas_of(("user", 2, "u"))),
    Case("quotas of users and addresses", quotas_of(("user", 0, "u"), ("ip", 0, "1.2.3.4"))),
]  # fmt: skip


def scram(
    deletions: Iterable[tuple[str, int]] = (), upsertions: Iterable[tuple[str, int, int]] = ()
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=n, mechanism=m) for n, m in deletions],
        upsertions=[
            ScramCredentialUpsertion(
                name=name, mechanism=mechanism, iterations=iterations, salt=b"salt",
                salted_password=b"p" * 32,
            )
            for name, mechanism, iterations in upsertions
        ],
    )  # fmt: skip


def users(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=n) for n in names])


SCRAM = [
    *(Case(f"scram {name}", scram(*asked)) for name, asked in {
        "nothing": ([], []),
        "deletion of unknown": ([("u", 1)], []),
        "deletion by an unknown mechanism": ([("u", 9)], []),
        "deletion by no mechanism": ([("u", 0)], []),
        "deletion without a name": ([("", 1)], []),
        "without a name": ([], [("", 1, 4096)]),
        "by an unknown mechanism": ([], [("u", 9, 4096)]),
        "by no mechanism": ([], [("u", 0, 4096)]),
        "with few iterations": ([], [("u", 1, 10)]),
        "with many iterations": ([], [("u", 1, 100_000)]),
        "twice": ([], [("u", 1, 4096), ("u", 1, 4096)]),
        "twice by two": ([], [("w", 1, 4096), ("w", 2, 8192)]),
        "and deletion": ([("u", 1)], [("u", 1, 4096)]),
        "deletion twice": ([("u", 1), ("u", 1)], []),
        "valid": ([], [("u", 1, 4096)]),
        "deletion of the other mechanism": ([("u", 2)], []),
    }.items()),
    Case("users", users("u", "w")),
    Case("unknown users", users("unknown")),
    Case("users twice", users("u", "u")),
    Case("users without a name", users("")),
    Case("no users", users()),
    Case("all users", DescribeUserScramCredentialsRequest(users=None)),
]  # fmt: skip


def acl(
    kind: int = 2, name: str = "known", pattern: int = 3, principal: str = "User:u",
    host: str = "*", operation: int = 3, permission: int = 3,
) -> CreateAclsRequest:  # fmt: skip
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=kind, resource_name=name, resource_pattern_type=pattern,
                principal=principal, host=host, operation=operation, permission_type=permission,
            )
        ]
    )  # fmt: skip


def acl_filter(
    kind: int = 2, name: str | None = "known", pattern: int = 3, principal: str | None = "User:u",
    host: str | None = "*", operation: int = 3, permission: int = 3,
) -> dict[str, Any]:  # fmt: skip
    return {
        "resource_type_filter": kind, "resource_name_filter": name,
        "pattern_type_filter": pattern, "principal_filter": principal, "host_filter": host,
        "operation": operation, "permission_type": permission,
    }  # fmt: skip


ODD_ACLS: dict[str, dict[str, Any]] = {
    "valid": {},
    "of any kind": {"kind": 1},
    "of no kind": {"kind": 0},
    "of a high kind": {"kind": 99},
    "of any pattern": {"pattern": 1},
    "of a matching pattern": {"pattern": 2},
    "of no pattern": {"pattern": 0},
    "of a high pattern": {"pattern": 99},
    "of a prefix": {"pattern": 4},
    "without a name": {"name": ""},
    "of an illegal name": {"name": "a b"},
    "of any operation": {"operation": 1},
    "of no operation": {"operation": 0},
    "of a high operation": {"operation": 99},
    "of another's operation": {"operation": 12},
    "of any permission": {"permission": 1},
    "of no permission": {"permission": 0},
    "of a high permission": {"permission": 99},
    "of an odd principal": {"principal": "nobody"},
    "without a principal": {"principal": ""},
    "without a host": {"host": ""},
    "of the cluster": {"kind": 4, "name": "kafka-cluster", "operation": 12},
    "of an odd cluster": {"kind": 4, "name": "other", "operation": 12},
    "of a user": {"kind": 7, "name": "User:x", "operation": 14},
    "of an odd user": {"kind": 7, "name": "x", "operation": 14},
}
ACLS = [
    *(Case(f"acl {name}", acl(**odd)) for name, odd in ODD_ACLS.items()),
    Case("no acl", CreateAclsRequest(creations=[])),
    *(
        Case(f"acls {name}", DescribeAclsRequest(**acl_filter(**odd)))
        for name, odd in ODD_ACLS.items()
    ),
    Case("all acls", DescribeAclsRequest(**acl_filter(1, None, 1, None, None, 1, 1))),
    *(
        Case(
            f"deleted acls {name}",
            DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter(**odd))]),
        )
        for name, odd in ODD_ACLS.items()
    ),
    Case("no deleted acls", DeleteAclsRequest(filters=[])),
]


# Delegation tokens


def token(
    lifetime: int = -1, renewers: Sequence[tuple[str, str]] = (),
    owner: tuple[str | None, str | None] = (None, None),
) -> CreateDelegationTokenRequest:  # fmt: skip
    return CreateDelegationTokenRequest(
        owner_principal_type=owner[0],
        owner_principal_name=owner[1],
        renewers=[CreatableRenewers(principal_type=k, principal_name=n) for k, n in renewers],
        max_lifetime_ms=lifetime,
    )


def tokens_of(owners: Sequence[tuple[str, str]] | None) -> DescribeDelegationTokenRequest:
    asked = None
    if owners is not None:
        asked = [
            DescribeDelegationTokenOwner(principal_type=k, principal_name=n) for k, n in owners
        ]
    return DescribeDelegationTokenRequest(owners=asked)


TOKENS = [
    case._replace(name=f"{case.name} ({'user' if is_user else 'nobody'})", user=is_user)
    for is_user in (False, True)
    for case in (
        Case("tokens", tokens_of(None)),
        Case("tokens of nobody", tokens_of([])),
        Case("tokens of a user", tokens_of([("User", "u")])),
        Case("token", token()),
        Case("token renewed by a user", token(1000, [("User", "u")])),
        Case("token renewed by an odd one", token(1000, [("Planet", "u")])),
        Case("token of another", token(owner=("User", "u")), (3, 3)),
        Case("token of an odd one", token(owner=("Planet", "u")), (3, 3)),
        Case("token of half a one", token(owner=("User", None)), (3, 3)),
        Case("token of one without a name", token(owner=("User", "")), (3, 3)),
        Case("token of a long life", token(10**15)),
        Case("token of no life", token(0)),
        Case("unknown token renewed", RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=5)),
        Case("unknown token expired",
             ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)),
    )
]  # fmt: skip
