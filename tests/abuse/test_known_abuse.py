"""What those who are logged in do to the APIs of security: a good client beside them goes on.

`bob` may do nothing, which is much: tokens are for everyone. `alice` may do everything. A third of
a second each; requests that take seconds by themselves are for `make abuse`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.acls import AclOperation, AclPermission, ResourceType
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
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
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.apis.renew_delegation_token import RenewDelegationTokenRequest
from pybroker_kafka.protocol.schema import Message
from tests.abuse.secured import Secured, for_a_while
from tests.support.wire import WireClient

SECONDS = 0.3
MAX_CHANGES = 2_000  # of a request; the log has a line for each
MANY = 20_000  # elements of a request, of some dozens of bytes each
TOKENS = 300


@pytest.fixture(scope="module")
def alice(secured: Secured) -> Iterator[WireClient]:
    with secured.client("SECURE", "alice") as client:
        yield client


@pytest.fixture(scope="module")
def bob(secured: Secured) -> Iterator[WireClient]:
    with secured.client("SECURE", "bob") as client:
        yield client


def acl(name: str, principal: str = "User:x", kind: int = ResourceType.TOPIC) -> AclCreation:
    return AclCreation(
        resource_type=kind, resource_name=name, principal=principal, host="*",
        operation=AclOperation.READ, permission_type=AclPermission.ALLOW,
    )  # fmt: skip


def picking(name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.TOPIC, "pattern_type_filter": 3,
        "resource_name_filter": name, "principal_filter": None, "host_filter": None,
        "operation": 1, "permission_type": 1, **fields,
    }  # fmt: skip


def deletion(*names: str | None) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**picking(name)) for name in names])


def entry(*names: tuple[str, str | None], value: float = 1e9) -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[AlterClientQuotasRequestEntityData(entity_type=k, entity_name=n) for k, n in names],
        ops=[OpData(key="producer_byte_rate", value=value)],
    )


def renewers(count: int) -> CreateDelegationTokenRequest:
    given = [CreatableRenewers(principal_type="User", principal_name=f"r{n}") for n in range(count)]
    return CreateDelegationTokenRequest(renewers=given, max_lifetime_ms=-1)


def owners(count: int) -> DescribeDelegationTokenRequest:
    given = [
        DescribeDelegationTokenOwner(principal_type="User", principal_name=f"o{n}")
        for n in range(count)
    ]
    return DescribeDelegationTokenRequest(owners=given)


# Of everyone, without any right.
OF_BOB: dict[str, Message] = {
    "unknown owners of tokens": owners(50_000),
    "expire by a large HMAC": ExpireDelegationTokenRequest(hmac=bytes(900_000)),
    "renew by a large HMAC": RenewDelegationTokenRequest(hmac=bytes(900_000)),
    "a token with 20 000 renewers": renewers(MANY),
    "a token with 60 000 renewers": renewers(3 * MANY),
    "ACLs that he may not create": CreateAclsRequest(creations=[acl(f"t{n}") for n in range(MANY)]),
    "ACLs that he may not delete": deletion(*(f"t{n}" for n in range(MANY))),
}
OF_ALICE: dict[str, Message] = {
    "20 000 ACLs of one topic": CreateAclsRequest(
        creations=[acl("one", f"User:u{n}") for n in range(MANY)]
    ),
    "5 000 ACLs of one topic": CreateAclsRequest(
        creations=[acl("some", f"User:u{n}") for n in range(5000)]
    ),
    "ACLs of 100 topics": CreateAclsRequest(creations=[acl(f"t{n}") for n in range(100)]),
    "ACLs that are none": CreateAclsRequest(creations=[acl("a/b") for n in range(MANY)]),
    "filters of 300 topics": deletion(*(f"t{n}" for n in range(300))),
    "describe all ACLs": DescribeAclsRequest(**picking(resource_type_filter=1)),
    "a long name": DescribeAclsRequest(**picking("x" * 32_000)),
    "delete all ACLs": deletion(None),
    "quotas of 100 users": AlterClientQuotasRequest(
        entries=[entry(("user", f"u{n}")) for n in range(100)]
    ),
    "20 000 components": DescribeClientQuotasRequest(
        components=[ComponentData(entity_type="user", match_type=0, match="x") for _ in range(MANY)]
    ),
    "describe all quotas": DescribeClientQuotasRequest(components=[]),
    "20 000 users with one name": DescribeUserScramCredentialsRequest(
        users=[UserName(name="u") for _ in range(3 * MANY)]
    ),
    "20 000 wrong users": AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name=f"w{n}", mechanism=9, iterations=2**31 - 1, salt=b"s", salted_password=b"x"
            )
            for n in range(MANY)
        ]
    ),
    "200 users": AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name=f"s{n}",
                mechanism=1,
                iterations=4096,
                salt=b"s" * 2000,
                salted_password=b"x" * 32,
            )
            for n in range(200)
        ]
    ),
    "a salt of 900 kB": AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name="salty",
                mechanism=1,
                iterations=4096,
                salt=b"s" * 900_000,
                salted_password=b"x" * 32,
            )
        ]
    ),
}
# Each change or look is one of ZooKeeper's.
LONG: dict[str, Message] = {
    "20 000 filters": deletion(*(f"none{n}" for n in range(MANY))),
    "5 000 filters for everything": DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(**picking(principal_filter=f"User:none{n}")) for n in range(5_000)
        ]
    ),
    "quotas of 20 000 users, tried": AlterClientQuotasRequest(
        entries=[entry(("user", f"u{n}")) for n in range(MANY)], validate_only=True
    ),
    "quotas that are none": AlterClientQuotasRequest(
        entries=[entry(("user", f"u{n}"), value=-0.5) for n in range(MANY)]
    ),
    "quotas of hosts that are none": AlterClientQuotasRequest(
        entries=[entry(("ip", f"256.1.1.{n}")) for n in range(50)]
    ),
    "20 000 users to describe": DescribeUserScramCredentialsRequest(
        users=[UserName(name=f"u{n}") for n in range(MANY)]
    ),
    "20 000 users to delete": AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=f"none{n}", mechanism=1) for n in range(MANY)]
    ),
}


def send(client: WireClient, request: Message) -> None:
    key = request._spec.api_key
    with client.timeout(60.0):
        client.call(request, API_TABLE[ApiKey(key)].highest())


@pytest.mark.parametrize("what", OF_BOB)
def test_requests_of_everyone(what: str, secured: Secured, bob: WireClient, tokens: None) -> None:
    secured.unharmed(
        f"bob: {what}", for_a_while(SECONDS, lambda: send(bob, OF_BOB[what])), slack_mb=60
    )


@pytest.mark.parametrize("what", OF_ALICE)
def test_requests_of_an_administrator(what: str, secured: Secured, alice: WireClient) -> None:
    def once() -> int:
        send(alice, OF_ALICE[what])
        return MAX_CHANGES

    secured.unharmed(f"alice: {what}", for_a_while(SECONDS, once), slack_mb=60)


@pytest.mark.parametrize("what", LONG)
def test_long_requests_of_an_administrator(what: str, secured: Secured, alice: WireClient) -> None:
    secured.unharmed(f"alice: {what}", lambda: send(alice, LONG[what]), slack_mb=60)


@pytest.fixture(scope="module")
def tokens(bob: WireClient) -> None:
    """Some."""
    for _ in range(TOKENS):
        assert bob.call(renewers(3), 3).error_code == 0


def test_all_tokens(secured: Secured, bob: WireClient, tokens: None) -> None:
    request = DescribeDelegationTokenRequest(owners=None)
    secured.unharmed("bob: all tokens", for_a_while(SECONDS, lambda: send(bob, request)))


def test_names_that_are_invented_under_quotas(secured: Secured, alice: WireClient) -> None:
    """Each client id has a meter, as long as the ids are few."""
    alice.call(AlterClientQuotasRequest(entries=[entry(("client-id", None))]), 1)
    numbers = iter(range(10**9))
    with secured.client("SECURE", "alice") as client:

        def once() -> None:
            asked = []
            for _ in range(100):
                client.client_id = f"invented-{next(numbers)}-{'x' * 200}"
                asked.append(client.post(MetadataRequest(topics=[]), 9))
            for number in asked:
                client.receive(ApiKey.METADATA, 9, number)

        secured.unharmed("client ids under a quota", for_a_while(3 * SECONDS, once))
