"""Administration of a secured cluster: SCRAM users, ACLs, quotas and delegation tokens.

Invariants: a password leaves this process only as a salted hash, as KIP-554 has it; its salt looks
like those that brokers tell who asks for a user that is not there.

Mirrors: KafkaAdminClient's calls of the same names.
Leaves out: callbacks that watch a token for its renewal.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode
from ..protocol.messages.credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from ..protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntryData,
    OpData,
)
from ..protocol.messages.security import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ..protocol.sasl import ScramHash
from ..protocol.sasl.scram import SALT_CHARACTERS, salt_text
from .cluster import Cluster

SALT_BITS = 256  # before they are cut
# The numbers of the mechanisms on the wire.
SCRAM_NUMBERS: Mapping[ScramHash, int] = {ScramHash.SHA_256: 1, ScramHash.SHA_512: 2}
MATCH_EXACT, MATCH_DEFAULT, MATCH_ANY = 0, 1, 2

# Of a quota: types of entity with names, None for the default of a type.
Entity = Mapping[str, str | None]


# ACLs


async def create_acls(cluster: Cluster, creations: Sequence[AclCreation]) -> None:
    """All or as many as there are before one that is refused. Raises ClientError."""
    answer = await cluster.ask_anyone(
        ApiKey.CREATE_ACLS, CreateAclsRequest(creations=list(creations)), CreateAclsResponse
    )
    asked = cluster.asks("alter")
    for result in answer.results:
        asked.check(result.error_code, result.error_message, "cannot add an ACL")


async def describe_acls(
    cluster: Cluster, wanted: DescribeAclsRequest
) -> list[DescribeAclsResource]:
    """The ACLs that match, by resource. Raises ClientError."""
    answer = await cluster.ask_anyone(ApiKey.DESCRIBE_ACLS, wanted, DescribeAclsResponse)
    cluster.asks("describe").check(answer.error_code, answer.error_message, "cannot list the ACLs")
    return answer.resources


async def delete_acls(
    cluster: Cluster, filters: Sequence[DeleteAclsFilter]
) -> list[DeleteAclsMatchingAcl]:
    """Those that matched and are gone now. Raises ClientError."""
    answer = await cluster.ask_anyone(
        ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=list(filters)), DeleteAclsResponse
    )
    asked = cluster.asks("alter")
    deleted = []
    for result in answer.filter_results:
        asked.check(result.error_code, result.error_message, "cannot remove ACLs")
        for acl in result.matching_acls:
            asked.check(acl.error_code, acl.error_message, "cannot remove an ACL")
            deleted.append(acl)
    return deleted


# Users


async def scram_users(
    cluster: Cluster, names: Iterable[str] | None = None
) -> dict[str, dict[ScramHash, int]]:
    """Users with passwords (None: all), and the iterations of each of their mechanisms."""
    users = None if names is None else [UserName(name=name) for name in names]
    answer = await cluster.ask_anyone(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        DescribeUserScramCredentialsRequest(users=users),
        DescribeUserScramCredentialsResponse,
    )
    asked = cluster.asks("describe")
    asked.check(answer.error_code, answer.error_message, "cannot list the users")
    kinds = {number: kind for kind, number in SCRAM_NUMBERS.items()}
    found = {}
    for result in answer.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        asked.check(result.error_code, result.error_message, f"cannot describe {result.user!r}")
        found[result.user] = {
            kinds[info.mechanism]: info.iterations for info in result.credential_infos
        }
    return found


async def set_password(
    cluster: Cluster, user: str, password: str, kinds: Collection[ScramHash], iterations: int
) -> None:
    """Of a new user or of one that there is; other mechanisms stay as they are."""
    upsertions = []
    for kind in kinds:
        salt = salt_text(secrets.randbits(SALT_BITS))[:SALT_CHARACTERS].encode()
        salted = kind.salted_password(password, salt, iterations)
        upsertions.append(
            ScramCredentialUpsertion(
                name=user,
                mechanism=SCRAM_NUMBERS[kind],
                iterations=iterations,
                salt=salt,
                salted_password=salted,
            )
        )
    request = AlterUserScramCredentialsRequest(upsertions=upsertions)
    await _alter_users(cluster, request, f"cannot set the password of {user!r}")


async def remove_password(cluster: Cluster, user: str, kinds: Collection[ScramHash]) -> None:
    """Of these mechanisms. Connections that are open stay open. Raises ClientError."""
    deletions = [ScramCredentialDeletion(name=user, mechanism=SCRAM_NUMBERS[k]) for k in kinds]
    request = AlterUserScramCredentialsRequest(deletions=deletions)
    await _alter_users(cluster, request, f"cannot remove {user!r}")


async def _alter_users(
    cluster: Cluster, request: AlterUserScramCredentialsRequest, what: str
) -> None:
    answer = await cluster.ask_controller(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request, AlterUserScramCredentialsResponse
    )
    asked = cluster.asks("alter")
    for result in answer.results:
        asked.check(result.error_code, result.error_message, what)


# Quotas


async def describe_quotas(
    cluster: Cluster, components: Sequence[ComponentData], *, strict: bool
) -> list[DescribeClientQuotasResponseEntryData]:
    """Those of matching entities; `strict`: of entities with these types only."""
    answer = await cluster.ask_anyone(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        DescribeClientQuotasRequest(components=list(components), strict=strict),
        DescribeClientQuotasResponse,
    )
    asked = cluster.asks("describe_configs")
    asked.check(answer.error_code, answer.error_message, "cannot describe the quotas")
    return answer.entries or []


async def alter_quotas(
    cluster: Cluster, entity: Entity, values: Mapping[str, float], removed: Iterable[str] = ()
) -> None:
    """Set some quotas of an entity, and take others away. Raises ClientError."""
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
    answer = await cluster.ask_anyone(
        ApiKey.ALTER_CLIENT_QUOTAS,
        AlterClientQuotasRequest(entries=[entry]),
        AlterClientQuotasResponse,
    )
    asked = cluster.asks("alter_configs")
    for result in answer.entries:
        asked.check(result.error_code, result.error_message, "cannot change the quotas")


# Delegation tokens; a principal is its type and its name


async def create_token(
    cluster: Cluster,
    owner: tuple[str, str] | None,
    renewers: Iterable[tuple[str, str]],
    max_lifetime_ms: int,
) -> CreateDelegationTokenResponse:
    """`owner` None: for whoever asks; a lifetime of -1: the brokers' limit."""
    answer = await cluster.ask_controller(
        ApiKey.CREATE_DELEGATION_TOKEN,
        CreateDelegationTokenRequest(
            owner_principal_type=owner[0] if owner else None,
            owner_principal_name=owner[1] if owner else None,
            renewers=[CreatableRenewers(principal_type=k, principal_name=n) for k, n in renewers],
            max_lifetime_ms=max_lifetime_ms,
        ),
        CreateDelegationTokenResponse,
    )
    cluster.asks("create_tokens", ":".join(owner or ())).check(
        answer.error_code, None, "cannot create a token"
    )
    return answer


async def describe_tokens(
    cluster: Cluster, owners: Iterable[tuple[str, str]] | None = None
) -> list[DescribedDelegationToken]:
    """Those that we may see; `owners` None: of everyone."""
    wanted = None
    if owners is not None:
        wanted = [
            DescribeDelegationTokenOwner(principal_type=k, principal_name=n) for k, n in owners
        ]
    answer = await cluster.ask_anyone(
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
        DescribeDelegationTokenRequest(owners=wanted),
        DescribeDelegationTokenResponse,
    )
    cluster.asks("describe").check(answer.error_code, None, "cannot list the tokens")
    return answer.tokens


async def renew_token(cluster: Cluster, token: DescribedDelegationToken, period_ms: int) -> int:
    """When it ends now, in ms since 1970. Raises ClientError."""
    answer = await cluster.ask_controller(
        ApiKey.RENEW_DELEGATION_TOKEN,
        RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms),
        RenewDelegationTokenResponse,
    )
    asked = cluster.asks("describe", token.token_id)
    asked.check(answer.error_code, None, f"cannot renew token {token.token_id}")
    return answer.expiry_timestamp_ms


async def expire_token(cluster: Cluster, token: DescribedDelegationToken, period_ms: int) -> int:
    """When it ends now; -1 ends it at once. Raises ClientError."""
    answer = await cluster.ask_controller(
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms),
        ExpireDelegationTokenResponse,
    )
    asked = cluster.asks("describe", token.token_id)
    asked.check(answer.error_code, None, f"cannot expire token {token.token_id}")
    return answer.expiry_timestamp_ms
