"""Two brokers with TLS, logins and ACLs, and faults of these while clients write.

`secured_pair` starts the brokers. `Writer` logs in repeatedly and notes the acknowledged records.
Each fault takes a pair of brokers and returns a description of the result. It asserts that no
unauthorized client gets in and that all acknowledged records are in the log.

Run all faults repeatedly: python -m tests.faults.security --rounds 20
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import itertools
import os
import secrets
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography import x509

from pybroker_kafka.protocol.acls import AclOperation, AclPermission, ResourceType
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.create_delegation_token import CreateDelegationTokenRequest
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker_kafka.protocol.apis.describe_delegation_token import DescribeDelegationTokenRequest
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.sasl import MECHANISMS, ScramClient, ScramHash
from tests.support.certificates import Authority, Pair, pem
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.sasl_client import handshake, log_in, talk
from tests.support.terminated import clean_up_when_terminated
from tests.support.wire import Topic, WireClient, batch, unique

MECHANISM, ITERATIONS = "SCRAM-SHA-256", 4096
LISTENERS = ("PLAIN", "BROKERS", "SECURE")
NODES = (1, 2)
WAIT_SECONDS = 120.0
PAUSE_SECONDS = 0.02
RECORDS_OF_A_LOGIN = 15
TOKENS = 60


class LoginRefused(Exception):
    """By its password."""


class SecuredPair(NamedTuple):
    brokers: dict[int, BrokerProcess]
    authority: Authority
    directory: Path

    def keystore(self, node: int) -> Path:
        return self.directory / f"{node}.pem"

    def replace_keystore(self, node: int, pair: Pair) -> None:
        """At once, as those do who replace certificates."""
        new = pair.write_pem(self.directory / "new.pem")
        os.replace(new, self.keystore(node))

    def admin(self, node: int = 1) -> WireClient:
        return WireClient(self.brokers[node].bootstrap)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=pem(self.authority.certificate))

    def stranger(self, node: int) -> WireClient:
        """Behind the handshake, and before the login."""
        port = self.brokers[node].port + LISTENERS.index("SECURE")
        return WireClient(f"127.0.0.1:{port}", tls=self.context())

    def client(self, node: int, name: str, password: str) -> WireClient:
        """Raises LoginRefused."""
        client = self.stranger(node)
        if log_in(client, MECHANISM, name, password).error_code:
            client.close()
            raise LoginRefused
        return client

    def lets_in(self, node: int, name: str, password: str) -> bool:
        try:
            self.client(node, name, password).close()
        except LoginRefused:
            return False
        return True

    def refuses(self, node: int, name: str, password: str) -> bool:
        return not self.lets_in(node, name, password)

    def answers(self, node: int = 2) -> bool:
        """It takes connections, whatever they lead to."""
        try:
            self.admin(node).close()
        except ConnectionRefusedError:
            return False
        return True

    # What is set up

    def alter_users(self, *changes: Any) -> None:
        request = AlterUserScramCredentialsRequest(
            deletions=[one for one in changes if isinstance(one, ScramCredentialDeletion)],
            upsertions=[one for one in changes if isinstance(one, ScramCredentialUpsertion)],
        )
        for node in NODES:
            with self.admin(node) as admin:
                results = admin.call(request, 0).results
            if all(result.error_code == 0 for result in results):
                return
            assert all(result.error_code == ErrorCode.NOT_CONTROLLER for result in results), results
        raise AssertionError("no broker is the controller")

    def make_user(self, name: str, password: str) -> None:
        """Known to both brokers when it returns."""
        self.alter_users(credential(name, password))
        for node in NODES:
            until(partial(self.lets_in, node, name, password), f"{name} is let in")

    def allow(self, name: str, topic: str) -> None:
        acl = AclCreation(
            resource_type=ResourceType.TOPIC, resource_name=topic, principal=f"User:{name}",
            host="*", operation=AclOperation.WRITE, permission_type=AclPermission.ALLOW,
        )  # fmt: skip
        with self.admin() as admin:
            assert admin.call(CreateAclsRequest(creations=[acl])).results[0].error_code == 0

    def topic(self, *replicas: int) -> Topic:
        """Of one partition, whose leader is the first of `replicas`."""
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
        wanted = CreatableTopic(
            name=unique(), num_partitions=-1, replication_factor=-1, assignments=[assignment]
        )
        for node in NODES:
            with self.admin(node) as admin:
                request = CreateTopicsRequest(topics=[wanted], timeout_ms=15_000)
                (made,) = admin.call(request).topics
            if made.error_code != ErrorCode.NOT_CONTROLLER:
                break
        assert made.error_code == 0, made
        return Topic(wanted.name, made.topic_id)

    def isr(self, topic: Topic, node: int = 1) -> list[int]:
        return sorted(self._partition(topic, node).isr_nodes)

    def leader(self, topic: Topic, node: int) -> int:
        leader: int = self._partition(topic, node).leader_id
        return leader

    def _partition(self, topic: Topic, node: int) -> Any:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)])
        with self.admin(node) as admin:
            (partition,) = admin.call(request, 9).topics[0].partitions
        return partition

    def values(self, topic: Topic, node: int = 1) -> list[bytes]:
        """All that is there, of its leader."""
        found: list[bytes] = []
        with self.admin(node) as admin:
            while records := admin.read(topic, len(found)):
                found += [record.value or b"" for record in records]
        return found


def credential(name: str, password: str) -> ScramCredentialUpsertion:
    salt = secrets.token_bytes(16)
    salted = ScramHash.SHA_256.salted_password(password, salt, ITERATIONS)
    return ScramCredentialUpsertion(
        name=name, mechanism=1, iterations=ITERATIONS, salt=salt, salted_password=salted
    )


@contextlib.contextmanager
def secured_pair(directory: Path) -> Iterator[SecuredPair]:
    authority = Authority()
    trust = authority.write_pem(directory / "authority.pem")
    with zookeeper_process(directory) as connect:
        pair = SecuredPair({}, authority, directory)
        try:
            for node in NODES:
                authority.both("broker").write_pem(pair.keystore(node))
                port = free_port(len(LISTENERS))
                pair.brokers[node] = BrokerProcess(
                    directory / str(node), connect, config(pair, node, port, trust), node, port
                )
                pair.brokers[node].start()
            yield pair
            for broker in pair.brokers.values():
                assert broker.is_running
                assert "Traceback" not in broker.log_text
        finally:
            for broker in pair.brokers.values():
                broker.kill()


def config(pair: SecuredPair, node: int, port: int, trust: Path) -> dict[str, str]:
    return {
        "listeners": ",".join(f"{n}://127.0.0.1:{port + i}" for i, n in enumerate(LISTENERS)),
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,BROKERS:SSL,SECURE:SASL_SSL",
        "inter.broker.listener.name": "BROKERS",
        "listener.name.brokers.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pair.keystore(node)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
        "sasl.enabled.mechanisms": MECHANISM,
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=broker",
        "delegation.token.secret.key": "the secret of tokens",
        "connection.failed.authentication.delay.ms": "10",
        "replica.lag.time.max.ms": "1500",
        "replica.fetch.backoff.ms": "100",
        "zookeeper.session.timeout.ms": "6000",
    }


class Writer(threading.Thread):
    """Writes numbered records, with a new login for every few, until it is stopped."""

    def __init__(self, connect: Callable[[], WireClient], topic: Topic) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self._topic = topic
        self._stopped = threading.Event()
        self.acknowledged: list[bytes] = []
        self.codes: list[int] = []  # of all answers, in order
        self.failures: list[Exception] = []

    def run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            try:
                with self._connect() as client:
                    for _ in range(RECORDS_OF_A_LOGIN):
                        number += 1
                        value = b"%d" % number
                        code = client.produce(self._topic.name, batch(value)).error_code
                        if code == 0:
                            self.acknowledged.append(value)
                        self.codes.append(code)
                        if self._stopped.is_set():
                            break
            except (LoginRefused, OSError) as error:
                self.failures.append(error)
                self._stopped.wait(PAUSE_SECONDS)

    def goes_on(self) -> None:
        """Wait for more than a login's records."""
        wanted = len(self.acknowledged) + 2 * RECORDS_OF_A_LOGIN
        until(lambda: len(self.acknowledged) >= wanted, "more is acknowledged")

    def has_heard(self, code: int, since: int, times: int) -> bool:
        """Among the answers behind the first `since`."""
        return self.codes[since:].count(code) >= times

    def stop(self) -> None:
        self._stopped.set()
        self.join(WAIT_SECONDS)
        assert not self.is_alive()


@contextlib.contextmanager
def writing(connect: Callable[[], WireClient], topic: Topic) -> Iterator[Writer]:
    writer = Writer(connect, topic)
    writer.start()
    try:
        yield writer
    finally:
        writer.stop()


def assert_kept(pair: SecuredPair, topic: Topic, acknowledged: list[bytes], node: int = 1) -> None:
    """In the order in which they were sent, each once; what was not acknowledged may be between."""
    there = iter(pair.values(topic, node))
    assert all(value in there for value in acknowledged)


# Faults


def password_is_changed(pair: SecuredPair) -> str:
    """Open connections go on; for new ones one password holds, at first the old one, and soon, for
    ever, the new one; in the end none."""
    name, topic = unique("carol"), pair.topic(1, 2)
    passwords = ["first", "second", "third"]
    pair.make_user(name, passwords[0])
    pair.allow(name, topic.name)
    known = {"password": passwords[0]}

    def connect() -> WireClient:
        return pair.client(1, name, known["password"])

    with connect() as held, writing(connect, topic) as writer:
        writer.goes_on()
        for old, new in itertools.pairwise(passwords):
            pair.alter_users(credential(name, new))
            for node in NODES:
                while pair.lets_in(node, name, old):
                    assert not pair.lets_in(node, name, "never a password")
                assert pair.lets_in(node, name, new)
            known["password"] = new
            writer.goes_on()
            assert not any(pair.lets_in(node, name, old) for node in NODES)
        pair.alter_users(ScramCredentialDeletion(name=name, mechanism=1))
        for node in NODES:
            until(partial(pair.refuses, node, name, new), "the user is gone")
        count = len(writer.failures)
        until(lambda: len(writer.failures) > count, "it is refused")
        assert held.produce(topic.name, batch(b"held")).error_code == 0
    assert_kept(pair, topic, writer.acknowledged)
    return f"{len(writer.acknowledged)} records, {len(writer.failures)} logins refused"


def certificate_is_replaced(pair: SecuredPair) -> str:
    """Not one connection fails, and a file that is half written changes nothing."""
    name, topic = unique("dave"), pair.topic(1, 2)
    pair.make_user(name, "secret")
    pair.allow(name, topic.name)

    def serial() -> int:
        with pair.stranger(1) as client:
            assert isinstance(client.socket, ssl.SSLSocket)
            der = client.socket.getpeercert(binary_form=True)
        assert der is not None
        return x509.load_der_x509_certificate(der).serial_number

    def shows(number: int) -> bool:
        return serial() == number

    with writing(lambda: pair.client(1, name, "secret"), topic) as writer:
        for _ in range(3):
            before = serial()
            whole = pair.keystore(1).read_bytes()
            pair.keystore(1).write_bytes(whole[: len(whole) // 2])
            assert look_at_keystore(pair, 1) == ErrorCode.INVALID_REQUEST
            assert serial() == before
            new = pair.authority.both("broker")
            pair.replace_keystore(1, new)
            assert look_at_keystore(pair, 1) == 0
            until(partial(shows, new.certificate.serial_number), "the new certificate")
            writer.goes_on()
    assert writer.failures == []
    assert_kept(pair, topic, writer.acknowledged)
    until(lambda: pair.isr(topic) == [1, 2], "both are in the ISR")
    return f"{len(writer.acknowledged)} records"


def look_at_keystore(pair: SecuredPair, node: int) -> int:
    """As an administrator does who does not wait until it is looked at; the error code."""
    wanted = IncrementalAlterConfigsRequestAlterableConfig(
        name="listener.name.secure.ssl.keystore.location", config_operation=0,
        value=str(pair.keystore(node)),
    )  # fmt: skip
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=4, resource_name=str(node), configs=[wanted]
    )
    with pair.admin(node) as admin:
        (answer,) = admin.call(IncrementalAlterConfigsRequest(resources=[resource])).responses
    return int(answer.error_code)


def certificate_has_expired(pair: SecuredPair) -> str:
    """A broker started with it is let in by nobody, and lets nobody down: the other one goes on,
    and with a good certificate it is back, and has all."""
    name, topic = unique("erin"), pair.topic(1, 2)
    pair.make_user(name, "secret")
    pair.allow(name, topic.name)
    second = pair.brokers[2]
    with writing(lambda: pair.client(1, name, "secret"), topic) as writer:
        writer.goes_on()
        second.kill()
        pair.replace_keystore(2, pair.authority.both("broker", days=-1))
        # Not to its end: it waits for the controller, which does not believe it.
        second.launch()
        until(lambda: pair.isr(topic) == [1], "the other one is out of the ISR")
        until(pair.answers, "the other one answers")
        for _ in range(20):
            with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
                pair.stranger(2).close()
        writer.goes_on()
        assert pair.isr(topic) == [1]
        assert second.is_running
        assert "The certificate of listener SECURE has expired on " in second.log_text
        second.kill()
        pair.replace_keystore(2, pair.authority.both("broker"))
        second.start()
        until(lambda: pair.isr(topic) == [1, 2], "it is back in the ISR")
        writer.goes_on()
    assert writer.failures == []
    assert pair.brokers[1].stop() == 0
    until(lambda: pair.leader(topic, 2) == 2, "it leads")
    assert_kept(pair, topic, writer.acknowledged, node=2)
    pair.brokers[1].start()
    until(lambda: pair.isr(topic, 2) == [1, 2], "the first one is back")
    return f"{len(writer.acknowledged)} records"


def acl_is_removed(pair: SecuredPair) -> str:
    """From clients that write: once refused, for ever, on the broker that was asked at once."""
    name, topics = unique("frank"), [pair.topic(1, 2), pair.topic(2, 1)]
    pair.make_user(name, "secret")
    for topic in topics:
        pair.allow(name, topic.name)
    denied = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(writing(partial(pair.client, node, name, "secret"), topic))
            for node, topic in zip(NODES, topics, strict=True)
        ]
        for writer in writers:
            writer.goes_on()
        # By now both brokers have heard of the topics and the ACLs.
        marks = [len(writer.codes) for writer in writers]
        with pair.admin(1) as admin, pair.client(1, name, "secret") as held:
            assert held.produce(topics[0].name, batch(b"held")).error_code == 0
            picked = DeleteAclsFilter(
                resource_type_filter=ResourceType.TOPIC, resource_name_filter=None,
                pattern_type_filter=1, principal_filter=f"User:{name}", host_filter=None,
                operation=1, permission_type=1,
            )  # fmt: skip
            (result,) = admin.call(DeleteAclsRequest(filters=[picked])).filter_results
            assert len(result.matching_acls) == len(topics)
            assert held.produce(topics[0].name, batch(b"late")).error_code == denied
        for writer, mark in zip(writers, marks, strict=True):
            until(partial(writer.has_heard, denied, mark, 20), "it is refused, and again")
    for writer, topic, node, mark in zip(writers, topics, NODES, marks, strict=True):
        assert writer.failures == []
        refused_from = writer.codes.index(denied, mark)
        assert set(writer.codes[mark:refused_from]) <= {0}
        assert set(writer.codes[refused_from:]) == {denied}
        values = pair.values(topic, node)
        assert [value for value in values if value != b"held"] == writer.acknowledged
    return f"{sum(len(writer.acknowledged) for writer in writers)} records"


def broker_dies_at_token_creation(pair: SecuredPair, after: int = TOKENS // 3) -> str:
    """Each token that was answered is there, on both brokers, and lets its owner in; of those that
    were not, what is there is whole."""
    name = unique("grace")
    pair.make_user(name, "secret")
    answered: dict[str, bytes] = {}
    with contextlib.suppress(OSError), pair.client(2, name, "secret") as client:
        request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1)
        numbers = [client.post(request, 3) for _ in range(TOKENS)]
        for index, number in enumerate(numbers):
            answer = client.receive(ApiKey.CREATE_DELEGATION_TOKEN, 3, number)
            assert answer.error_code == 0
            answered[answer.token_id] = bytes(answer.hmac)
            if index == after:
                pair.brokers[2].kill()
    pair.brokers[2].start()
    for node in NODES:
        with pair.client(node, name, "secret") as client:
            asked = DescribeDelegationTokenRequest(owners=None)
            tokens = {one.token_id: bytes(one.hmac) for one in client.call(asked, 3).tokens}
        assert answered.items() <= tokens.items()
        assert len(tokens) <= TOKENS
        for token_id in [*tokens][-3:]:
            assert logs_in_by_token(pair, node, token_id, tokens[token_id])
            assert not logs_in_by_token(pair, node, token_id, b"another HMAC")
        assert not logs_in_by_token(pair, node, "none", b"")
    return f"{len(answered)} tokens answered, {len(tokens)} there"


def logs_in_by_token(pair: SecuredPair, node: int, token_id: str, hmac: bytes) -> bool:
    password, nonce = base64.b64encode(hmac).decode(), secrets.token_hex(16)
    with pair.stranger(node) as client:
        assert handshake(client, MECHANISM).error_code == 0
        mine = ScramClient(MECHANISMS[MECHANISM], token_id, password, nonce, by_token=True)
        return bool(talk(client, mine).error_code == 0)


FAULTS: tuple[Callable[[SecuredPair], str], ...] = (
    password_is_changed,
    certificate_is_replaced,
    acl_is_removed,
    broker_dies_at_token_creation,
    certificate_has_expired,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="repetitions of all faults")
    arguments = parser.parse_args()
    clean_up_when_terminated()
    with tempfile.TemporaryDirectory() as name, secured_pair(Path(name)) as pair:
        for number in range(arguments.rounds):
            for fault in FAULTS:
                began = time.monotonic()
                told = fault(pair)
                took = time.monotonic() - began
                print(f"{number:3d}  {fault.__name__:<30} {took:5.1f} s  {told}", flush=True)
    print(f"{arguments.rounds * len(FAULTS)} faults: nothing opened, nothing acknowledged was lost")
    return 0


if __name__ == "__main__":
    sys.exit(main())
