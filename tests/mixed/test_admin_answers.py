"""What administrators are answered: Apache Kafka 3.9.1 and pybroker, request by request.

Both brokers are asked the same (`tests.support.admin_requests`), in every version that both serve;
codes, texts and all else that an answer says must be the same. Where they differ, `REASONS` says
why. They also list the same configuration keys.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.admin_requests.cases import BROKER, Case
from tests.support.admin_requests.comparing import at, said
from tests.support.admin_requests.configs import described
from tests.support.admin_requests.table import CASES
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.sasl_client import log_in
from tests.support.wire import TRANSACTION, WireClient

pytestmark = pytest.mark.timeout(600)

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.users.plain.sasl.jaas.config": f'{MODULE} user_admin="admin-secret";',
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": "secret",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
WAIT_SECONDS = 60.0
SILENT_SECONDS = 5.0
NEVER, CLOSED = "no answer", "the end of the connection"
FEWEST_KEYS = 300

Answers = dict[tuple[str, int], Any]


class Difference(NamedTuple):
    """Where an answer says something else, and what either broker says there."""

    case: str
    place: str
    kafka: Any
    ours: Any


class Side:
    """One broker over a ZooKeeper of its own."""

    def __init__(self, kind: type[BrokerProcess], place: Path, connect: str) -> None:
        self._plain, self._users = free_port(), free_port()
        listeners = (
            f"PLAINTEXT://127.0.0.1:{self._plain},USERS://127.0.0.1:{self._users}",
            f"{place}/one,{place}/two",
        )
        config = {**CONFIG, "listeners": listeners[0], "log.dirs": listeners[1]}
        self.process = kind(place / "broker", connect, config, port=self._plain)

    def connected(self, *, user: bool) -> WireClient:
        if not user:
            return WireClient(f"127.0.0.1:{self._plain}")
        client = WireClient(f"127.0.0.1:{self._users}")
        log_in(client, "PLAIN", "admin", "admin-secret")
        return client

    def prepare(self) -> None:
        with self.connected(user=False) as client:
            until(lambda: client.call(MetadataRequest(topics=[])).brokers, seconds=WAIT_SECONDS)
            client.coordinator("g")
            client.coordinator("t", TRANSACTION)

    def answers(self) -> Answers:
        given: Answers = {}
        with contextlib.ExitStack() as stack:
            clients = {
                user: stack.enter_context(self.connected(user=user)) for user in (False, True)
            }
            for case in CASES:
                client = clients[case.user]
                for version in client.versions(case.request._spec.api_key, *case.versions):
                    try:
                        with client.timeout(SILENT_SECONDS):
                            answer = client.call(at(case.request, version), version)
                            given[case.name, version] = said(answer)
                    except (TimeoutError, ConnectionError) as error:
                        is_silent = isinstance(error, TimeoutError)
                        given[case.name, version] = NEVER if is_silent else CLOSED
                        client = stack.enter_context(self.connected(user=case.user))
                        clients[case.user] = client
        return given


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    kafka_jars()
    place = tmp_path_factory.mktemp("administrators")
    with zookeeper_process(place / "a") as theirs, zookeeper_process(place / "b") as own:
        kafka = Side(ApacheKafkaProcess, place / "a", theirs)
        ours = Side(BrokerProcess, place / "b", own)
        try:
            for side in (kafka, ours):
                side.process.launch()
            for side in (kafka, ours):
                side.process.wait_until_ready()
                side.prepare()
            yield kafka, ours
        finally:
            for side in (kafka, ours):
                side.process.kill()


def differences(case: str, kafka: Any, ours: Any, place: str = "") -> Iterator[Difference]:
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for name in kafka:
            yield from differences(case, kafka[name], ours[name], f"{place}.{name}")
    elif isinstance(kafka, list) and isinstance(ours, list) and len(kafka) == len(ours):
        for theirs, own in zip(kafka, ours, strict=True):
            yield from differences(case, theirs, own, place)
    elif kafka != ours:
        yield Difference(case, place, kafka, ours)


# Why answers differ

UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
INTO_A_VOID = ("create placed on nothing", "create partition placed twice")

REASONS: dict[str, Callable[[Difference, bool], bool]] = {
    "a bad request is no unknown server error, and has a text": lambda d, fails: fails,
    "Apache Kafka creates a partition that is nowhere, or is placed twice": lambda d, _: (
        d.case in INTO_A_VOID
    ),
    "Apache Kafka never answers": lambda d, _: d.kafka == NEVER,
    "Apache Kafka wraps its own exception": lambda d, _: (
        "ConfigException" in str(d.kafka) and d.ours in d.kafka
    ),
    "Apache Kafka quotes what Java says of the number": lambda d, _: str(d.kafka).startswith(
        "For input string"
    ),
    "listeners are not changed while a broker runs": lambda d, _: "listeners" in d.case,
    "Apache Kafka names itself twice": lambda d, _: d.case == "change logger of another",
    "Apache Kafka never says of a value that it is the default": lambda d, _: (
        d.place.endswith(".is_default") and d.kafka is False
    ),
    "Apache Kafka has the same text for all that it cannot read": lambda d, _: str(
        d.kafka
    ).startswith("This most likely occurs because of a request being malformed"),
    "Apache Kafka 3.9 supports no feature": lambda d, _: (
        d.case == "feature metadata" and "is not supported" in str(d.kafka)
    ),
    "a topic that is not named is no secret": lambda d, _: (
        d.case == "delete by neither"
        and (d.kafka, d.ours) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID)
    ),
}


def fails_unknown(answer: Any) -> bool:
    """Whether it has the code of an exception that Kafka has not expected."""
    if isinstance(answer, dict):
        code = answer.get("error_code")
        return code == UNKNOWN or any(map(fails_unknown, answer.values()))
    return isinstance(answer, list) and any(map(fails_unknown, answer))


def test_the_answers_are_apache_kafkas(sides: tuple[Side, Side]) -> None:
    kafka, ours = (side.answers() for side in sides)
    assert kafka.keys() == ours.keys()
    unexplained: dict[Difference, list[int]] = {}
    used = set()
    for (case, version), answer in kafka.items():
        fails = fails_unknown(answer)
        for found in differences(case, answer, ours[case, version]):
            why = next((why for why, holds in REASONS.items() if holds(found, fails)), None)
            if why is None:
                shown = found._replace(kafka=repr(found.kafka), ours=repr(found.ours))
                unexplained.setdefault(shown, []).append(version)
            used.add(why)
    assert not unexplained, "\n".join(f"v{v}: {one}" for one, v in unexplained.items())
    assert used == REASONS.keys()  # what has become alike needs no reason


def test_the_broker_has_apache_kafkas_keys(sides: tuple[Side, Side]) -> None:
    """Ours are told where they are set, as here none is."""
    names = []
    for side in sides:
        with side.connected(user=False) as client:
            (result,) = client.call(described(BROKER, "1")).results
            names.append({entry.name for entry in result.configs})
    assert names[0] == names[1]
    assert len(names[0]) > FEWEST_KEYS


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)
    assert all(isinstance(case, Case) for case in CASES)
