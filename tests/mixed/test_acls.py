"""A broker of ours and an Apache Kafka over one ZooKeeper have the same ACLs and answer the same.

What one is told the other hears of; kafka-acls works with both; random requests, many of them
nonsense, get the same answers from both. 14 seconds, of which 6 start Apache Kafka.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.acls import ResourceType
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker_kafka.protocol.apis.describe_acls import DescribeAclsRequest
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.kafka_tools import kafka_tool
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient

pytestmark = pytest.mark.timeout(300)

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ROUNDS = 40
ACLS = "kafka.admin.AclCommand"
ANYTHING = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
NAMES = (
    "a",
    "ab",
    "abc",
    "*",
    "kafka-cluster",
    "ä:é",
    "a/b",
    "",
    "..",
    "a\tb",
    "\U0001f600",
    "-" * 300,
)
PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a:b", "User:", ":", "alice", "")

Clients = tuple[WireClient, WireClient]
Answer = Any


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    kafka_jars()
    directory = tmp_path_factory.mktemp("acls")
    with zookeeper_process(directory) as connect:
        ours = BrokerProcess(directory / "ours", connect, SETTINGS, 1)
        theirs = ApacheKafkaProcess(directory / "theirs", connect, SETTINGS, 2)
        try:
            theirs.launch()
            ours.start()
            theirs.wait_until_ready()
            yield ours.bootstrap, theirs.bootstrap
        finally:
            ours.kill()
            theirs.kill()


@pytest.fixture
def clients(brokers: tuple[str, str]) -> Iterator[Clients]:
    with WireClient(brokers[0]) as ours, WireClient(brokers[1]) as theirs:
        yield ours, theirs


def described(client: WireClient, version: int = 3, **fields: Any) -> Answer:
    answer = client.call(DescribeAclsRequest(**ANYTHING | fields), version)
    acls = {
        (one.resource_type, one.pattern_type, one.resource_name, acl.principal, acl.host,
         acl.operation, acl.permission_type)
        for one in answer.resources
        for acl in one.acls
    }  # fmt: skip
    return answer.error_code, answer.error_message, acls


def created(client: WireClient, creations: list[AclCreation], version: int) -> Answer:
    answer = client.call(CreateAclsRequest(creations=creations), version)
    return [(result.error_code, result.error_message) for result in answer.results]


def deleted(client: WireClient, filters: list[dict[str, Any]], version: int) -> Answer:
    asked = [DeleteAclsFilter(**ANYTHING | one) for one in filters]
    answer = client.call(DeleteAclsRequest(filters=asked), version)
    return [
        (result.error_code, result.error_message, {
            (acl.error_code, acl.error_message, acl.resource_type, acl.pattern_type,
             acl.resource_name, acl.principal, acl.host, acl.operation, acl.permission_type)
            for acl in result.matching_acls
        })
        for result in answer.filter_results
    ]  # fmt: skip


def settle(clients: Clients) -> None:
    ours, theirs = clients
    until(
        lambda: described(ours) == described(theirs),
        lambda: described(ours)[2] ^ described(theirs)[2],
    )


class Wishes:
    """Random requests: mostly sense, so that they meet, with every kind of nonsense among it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one_of(self, *likely: Any, odd: tuple[Any, ...] = ()) -> Any:
        pick = self._random
        return pick.choice(odd) if odd and pick.random() < 0.04 else pick.choice(likely)

    def version(self) -> int:
        return self._random.randrange(4)

    def creation(self, version: int) -> AclCreation:
        creation = AclCreation(
            resource_type=self.one_of(*range(2, 8), odd=(1, 8, -1)),
            resource_name=self.one_of(*NAMES[:6], odd=NAMES[6:]),
            principal=self.one_of(*PRINCIPALS[:4], odd=PRINCIPALS[4:]),
            host=self.one_of("*", "10.0.0.1", odd=("", "nonsense")),
            operation=self.one_of(*range(2, 15), odd=(1, 15, -5)),
            permission_type=self.one_of(2, 3, odd=(1, 4)),
        )
        if creation.resource_type == ResourceType.CLUSTER:
            creation.resource_name = self.one_of("kafka-cluster", odd=NAMES)
        if version:
            creation.resource_pattern_type = self.one_of(3, 4, odd=(1, 2, 5))
        return creation

    def filter(self, version: int) -> dict[str, Any]:
        wanted = {
            "resource_type_filter": self.one_of(1, 2, 3, odd=(4, 5, 6, 7, 9)),
            "resource_name_filter": self.one_of(None, *NAMES[:4], odd=NAMES),
            "principal_filter": self.one_of(None, *PRINCIPALS[:3], odd=PRINCIPALS),
            "host_filter": self.one_of(None, "*", "10.0.0.1", odd=("",)),
            "operation": self.one_of(1, 1, *range(2, 6), odd=(14, 15)),
            "permission_type": self.one_of(1, 2, 3, odd=(4,)),
        }
        wanted["pattern_type_filter"] = self.one_of(1, 2, 3, 4, odd=(5,)) if version else 3
        return wanted


@pytest.mark.parametrize("seed", [12])
def test_random_requests_are_answered_alike(seed: int, clients: Clients) -> None:
    ours, theirs = clients
    wishes = Wishes(seed)
    failures: set[int] = set()
    found = 0
    for number in range(ROUNDS):
        version = wishes.version()
        wanted = [wishes.creation(version) for _ in range(12)]
        # The second time there is nothing left to do: the answers are the same.
        first, second = clients if number % 2 else (theirs, ours)
        answer = created(first, wanted, version)
        assert created(second, wanted, version) == answer, (number, version, wanted)
        failures.update(code for code, _ in answer)
        settle(clients)
        for _ in range(5):
            version = wishes.version()
            asked = wishes.filter(version)
            answer = described(ours, version, **asked)
            assert answer == described(theirs, version, **asked), (number, version, asked)
            found += len(answer[2])
        if number % 4 == 3:
            version = wishes.version()
            filters = [wishes.filter(version) for _ in range(3)]
            expected = set().union(*(described(ours, version, **one)[2] for one in filters))
            answer = deleted(first, filters, version)
            assert set().union(*(acls for _, _, acls in answer)) == {
                (0, None, *acl) for acl in expected
            }, (number, version, filters)
            settle(clients)
            assert deleted(second, filters, version) == [(0, None, set())] * 3
    assert failures == {0, 42, -1}
    assert found > ROUNDS


def test_kafka_acls_with_both(brokers: tuple[str, str], clients: Clients) -> None:
    deleted(clients[0], [{}], 3)
    settle(clients)
    for number, (told, other) in enumerate((brokers, brokers[::-1])):
        what = ("--topic", f"orders{number}", "--resource-pattern-type", "prefixed")
        who = ("--allow-principal", "User:CN=a,O=b", "--allow-host", "10.0.0.1")
        kafka_tool(ACLS, "--bootstrap-server", told, "--add", "--producer", *what, *who)
        settle(clients)
        kind = ("--topic", f"orders{number}", "--resource-pattern-type", "any")
        listed = kafka_tool(ACLS, "--bootstrap-server", other, "--list", *kind)
        for operation in ("WRITE", "DESCRIBE", "CREATE"):
            line = f"host=10.0.0.1, operation={operation}, permissionType=ALLOW)"
            line = f"(principal=User:CN=a,O=b, {line}"
            assert line in listed
        kafka_tool(ACLS, "--bootstrap-server", other, "--remove", "--force", *what)
        settle(clients)
    for client in clients:
        assert described(client) == (0, "", set())
