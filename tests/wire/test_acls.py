"""CreateAcls, DescribeAcls and DeleteAcls, with and without an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.acls import AclOperation, AclPermission, PatternType, ResourceType
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker_kafka.protocol.apis.describe_acls import DescribeAclsRequest
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.processes import running_broker
from tests.support.wire import WireClient, covers, unique

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, ALLOW = AclOperation.READ, AclPermission.ALLOW
ANY = 1
VERSIONS = range(4)
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_broker(tmp_path_factory.mktemp("acls"), SETTINGS) as broker:
        yield broker.bootstrap


@pytest.fixture
def client(guarded: str) -> Iterator[WireClient]:
    with WireClient(guarded) as connected:
        yield connected


def creation(name: str, **fields: Any) -> AclCreation:
    asked: dict[str, Any] = {
        "resource_type": TOPIC,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(resource_name=name, **asked | fields)


def picking(name: str | None = None, **fields: Any) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "resource_type_filter": ANY,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return {"resource_name_filter": name, **asked, **fields}


def create(client: WireClient, *creations: AclCreation, version: int = 3) -> list[tuple[int, Any]]:
    answer = client.call(CreateAclsRequest(creations=list(creations)), version)
    return [(result.error_code, result.error_message) for result in answer.results]


def describe(client: WireClient, version: int = 3, **asked: Any) -> set[tuple[Any, ...]]:
    answer = client.call(DescribeAclsRequest(**asked), version)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        (one.resource_type, one.pattern_type, one.resource_name, acl.principal, acl.host,
         acl.operation, acl.permission_type)
        for one in answer.resources
        for acl in one.acls
    }  # fmt: skip


def delete(client: WireClient, *asked: dict[str, Any], version: int = 3) -> list[set[Any]]:
    filters = [DeleteAclsFilter(**one) for one in asked]
    answer = client.call(DeleteAclsRequest(filters=filters), version)
    for result in answer.filter_results:
        assert (result.error_code, result.error_message) == (0, None)
        assert {(acl.error_code, acl.error_message) for acl in result.matching_acls} <= {(0, None)}
    return [
        {(acl.resource_name, acl.pattern_type, acl.principal) for acl in result.matching_acls}
        for result in answer.filter_results
    ]


@covers(ApiKey.CREATE_ACLS, ApiKey.DESCRIBE_ACLS, ApiKey.DELETE_ACLS)
@pytest.mark.parametrize("version", VERSIONS)
def test_acls_come_and_go(version: int, client: WireClient) -> None:
    name = unique()
    assert create(client, creation(name), version=version) == [(0, "")]
    literal = (TOPIC, LITERAL, name, "User:alice", "*", READ, ALLOW)
    # Before patterns had types, all that is found is literal.
    kind = LITERAL if version == 0 else ANY
    asked = picking(name, pattern_type_filter=kind)
    assert describe(client, version, **asked) == {literal}
    if version:
        prefixed = creation(name, resource_pattern_type=PREFIXED)
        assert create(client, prefixed, version=version) == [(0, "")]
        both = {literal, (TOPIC, PREFIXED, *literal[2:])}
        assert describe(client, version, **asked) == both
        match = picking(f"{name}-x", pattern_type_filter=PatternType.MATCH)
        assert describe(client, version, **match) == both - {literal}
        assert describe(client, 0, **picking(name, pattern_type_filter=LITERAL)) == {literal}
    deleted = delete(client, asked, version=version)
    assert deleted == [{(name, kind, "User:alice") for kind in ((3, 4) if version else (3,))}]
    assert delete(client, asked, version=version) == [set()]
    assert describe(client, version, **asked) == set()


@pytest.mark.parametrize("version", VERSIONS)
def test_without_an_authorizer_there_are_no_acls(version: int, kafka: WireClient) -> None:
    disabled = ErrorCode.SECURITY_DISABLED
    assert (
        create(kafka, creation("a"), creation("b"), version=version)
        == [(disabled, "No Authorizer is configured.")] * 2
    )
    one = picking(pattern_type_filter=LITERAL)
    answer = kafka.call(DescribeAclsRequest(**one), version)
    assert answer.error_code == disabled
    assert answer.error_message == "No Authorizer is configured on the broker"
    answer = kafka.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**one)]), version)
    (result,) = answer.filter_results
    assert (result.error_code, result.matching_acls) == (disabled, [])
    assert result.error_message == "No Authorizer is configured."


def test_what_is_wrong_with_one_leaves_the_others(client: WireClient) -> None:
    name = unique()
    wrong = ErrorCode.INVALID_REQUEST
    assert create(
        client,
        creation(name),
        creation("other", resource_type=CLUSTER),
        creation(""),
        creation("a/b"),
        creation(name, operation=77),
        creation(name, resource_type=99),
        creation(f"{name}-2", principal="alice"),
        creation(f"{name}-2"),
        creation(".."),
        creation(name, host="nonsense"),
        creation("kafka-cluster", resource_type=CLUSTER, operation=READ),
        creation(f"{name}-3", principal="User:", permission_type=AclPermission.DENY),
    ) == [
        (0, ""),
        (wrong, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (wrong, "Invalid empty resource name"),
        *[(wrong, "Failed to create ACL")] * 3,
        # A principal that is none takes the others of its resource with it.
        *[(ErrorCode.UNKNOWN_SERVER_ERROR, None)] * 3,
        *[(0, "")] * 3,
    ]
    assert {acl[4] for acl in describe(client, **picking(name))} == {"*", "nonsense"}
    assert describe(client, **picking(f"{name}-2")) == set()


@pytest.mark.parametrize(
    "fields",
    [
        {"resource_type": ANY}, {"resource_pattern_type": ANY}, {"operation": ANY},
        {"resource_pattern_type": PatternType.MATCH}, {"permission_type": ANY},
    ],
)  # fmt: skip
def test_an_acl_about_anything_fails_its_request(
    fields: dict[str, int], client: WireClient
) -> None:
    name = unique()
    failed = [(ErrorCode.UNKNOWN_SERVER_ERROR, None)] * 2
    assert create(client, creation(name), creation(name, **fields)) == failed
    assert describe(client, **picking(name)) == set()


@pytest.mark.parametrize("field", ["resource_type", "operation", "permission_type"])
def test_a_zero_closes_the_connection(field: str, client: WireClient) -> None:
    of_filter = {"resource_type": "resource_type_filter"}.get(field, field)
    for request in (
        CreateAclsRequest(creations=[creation("t"), creation("t", **{field: 0})]),
        DescribeAclsRequest(**picking("t", **{of_filter: 0})),
        DeleteAclsRequest(filters=[DeleteAclsFilter(**picking("t", **{of_filter: 0}))]),
    ):
        with client.another() as culprit:
            culprit.post(request, 3)
            assert culprit.is_closed_by_broker()


def test_a_filter_of_something_newer_matches_nothing(client: WireClient) -> None:
    name = unique()
    create(client, creation(name))
    for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
        asked = picking(name, **{field: 99})
        assert describe(client, **asked) == set()
        assert delete(client, asked) == [set()]


def test_the_first_filter_that_matches_has_it(client: WireClient) -> None:
    name = unique()
    create(client, creation(name), creation(name, principal="User:bob"))
    by_name, by_user = picking(name), picking(name, principal_filter="User:bob")
    nobody = picking(name, principal_filter="User:carol")
    alice, bob = ((name, LITERAL, f"User:{who}") for who in ("alice", "bob"))
    assert delete(client, nobody, by_user, by_name) == [set(), {bob}, {alice}]
    create(client, creation(name), creation(name, principal="User:bob"))
    assert delete(client, by_name, by_user) == [{alice, bob}, set()]


def test_thousands_at_once(client: WireClient) -> None:
    prefix = unique()
    some = [creation(f"{prefix}-{n % 50}", principal=f"User:{n}") for n in range(3000)]
    assert create(client, *some) == [(0, "")] * 3000
    asked = picking(None, principal_filter="User:2999")
    assert {acl[2] for acl in describe(client, **asked)} == {f"{prefix}-49"}
    one_each = [picking(f"{prefix}-{n % 50}", principal_filter=f"User:{n}") for n in range(3000)]
    assert [len(matches) for matches in delete(client, *one_each)] == [1] * 3000


def test_the_keys_of_the_authorizer_are_shown_as_of_a_plug_in(
    client: WireClient, kafka: WireClient
) -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name="1")
    for connected, there in ((client, {"super.users"}), (kafka, set())):
        (result,) = connected.call(DescribeConfigsRequest(resources=[resource]), 4).results
        found = {entry.name: entry for entry in result.configs}
        assert found.keys() & {"super.users", "allow.everyone.if.no.acl.found"} == there
        for name in there:
            assert (found[name].value, found[name].is_sensitive) == (None, True)
