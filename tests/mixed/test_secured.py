"""Apache Kafka and us in one cluster whose brokers know each other by certificates and passwords.

Every connection between brokers, those of the controller included, is SASL_SSL with
SCRAM-SHA-512; so is that of the clients. Each of the brokers is killed while it leads; nothing that
was acknowledged is lost. Takes about 60 s. Skipped without Java and Maven.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import pytest
import trio

from pybroker_kafka import Cluster, Consumer, Producer, SimpleRecord, create_topic
from pybroker_kafka.client.connection import Connections
from pybroker_kafka.client.errors import LoginError
from pybroker_kafka.client.security.connector import Connector
from pybroker_kafka.client.security.settings import connector_from
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from pybroker_kafka.protocol.apis.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from pybroker_kafka.protocol.apis.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.certificates import PASSWORD, AuthorityFiles
from tests.support.kafka_tools import kafka_tool
from tests.support.processes import BrokerProcess, free_port, zookeeper_process

pytestmark = pytest.mark.timeout(240)

OURS, KAFKA_A, KAFKA_B = 1, 2, 3
NODES = (OURS, KAFKA_A, KAFKA_B)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
TOPIC = "kept"
WAIT_SECONDS = 120.0
BATCHES = 2 * len(NODES)  # to each partition


class Secured(NamedTuple):
    nodes: Mapping[int, BrokerProcess]
    ports: Mapping[int, int]
    client: Mapping[str, str]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{port}" for port in self.ports.values())


def settings(authority: AuthorityFiles, node: int, port: int, secure_port: int) -> dict[str, str]:
    store = authority.issue(f"broker-{node}", addresses=()).with_suffix(".p12")
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},BROKERS://localhost:{secure_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_SSL",
        "inter.broker.listener.name": "BROKERS",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.brokers.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM} username="broker" password="broker-secret";'
        ),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca),
        "connections.max.reauth.ms": "5000",
        "delegation.token.secret.key": "the-secret-of-all-brokers",
        "delegation.token.expiry.check.interval.ms": "200",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "zookeeper.session.timeout.ms": "6000",
        "replica.lag.time.max.ms": "10000",
        "controlled.shutdown.enable": "false",
    }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    kafka_jars()
    directory = tmp_path_factory.mktemp("secured")
    authority = AuthorityFiles(directory / "certificates")
    with ExitStack() as stack:
        connect = stack.enter_context(zookeeper_process(directory))
        for user in ("broker", "alice"):
            kafka_tool(
                "kafka.admin.ConfigCommand", "--zookeeper", connect, "--alter",
                "--entity-type", "users", "--entity-name", user, "--add-config",
                f"SCRAM-SHA-512=[password={user}-secret]",
            )  # fmt: skip
        nodes: dict[int, BrokerProcess] = {}
        ports = {}
        for node in NODES:
            port = free_port(2)
            kind = BrokerProcess if node == OURS else ApacheKafkaProcess
            config = settings(authority, node, port, port + 1)
            nodes[node] = kind(directory / str(node), connect, config, node, port)
            ports[node] = port + 1
            stack.callback(nodes[node].kill)
            nodes[node].launch()
        for process in nodes.values():
            process.wait_until_ready()
        client = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} username="alice" password="alice-secret";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.ca),
        }
        yield Secured(nodes, ports, client)


async def all_in_sync(cluster: Cluster) -> dict[int, int]:
    """The leaders by partition, once all replicas are in sync."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        topic = await cluster.led_topic(TOPIC, wait_for_missing=True)
        if all(len(partition.isr_nodes) == len(NODES) for partition in topic.partitions):
            return {one.partition_index: int(one.leader_id) for one in topic.partitions}
        assert time.monotonic() < deadline, f"not in sync: {topic.partitions}"
        await trio.sleep(0.1)


async def test_each_leader_dies(secured: Secured) -> None:
    written: list[bytes] = []
    async with (
        Cluster(secured.bootstrap, security=secured.client) as cluster,
        Producer(cluster) as producer,
    ):
        await create_topic(cluster, TOPIC, partitions=len(NODES), replication_factor=len(NODES))

        async def write(text: str) -> None:
            for batch in range(BATCHES):
                values = [f"{text}-{batch}-{number}".encode() for number in range(50)]
                await producer.send_all(TOPIC, [SimpleRecord(1, None, v) for v in values])
                written.extend(values)

        for node in NODES:
            assert node in (await all_in_sync(cluster)).values()
            await write(f"with {node}")
            process = secured.nodes[node]
            process.kill()
            await write(f"without {node}")
            process.launch()
            await trio.to_thread.run_sync(process.wait_until_ready)
        await all_in_sync(cluster)
        (topic,) = (await cluster.metadata([TOPIC])).topics
    read: list[bytes] = []
    async with Consumer(
        secured.bootstrap, security=secured.client, auto_offset_reset="earliest"
    ) as consumer:
        await consumer.assign([(TOPIC, part.partition_index) for part in topic.partitions])
        with trio.fail_after(WAIT_SECONDS):
            while len(read) < len(written):
                read += [record.value or b"" for record in await consumer.poll(1)]
    assert sorted(read) == sorted(written)


def by_token(secured: Secured, token: CreateDelegationTokenResponse) -> Connector:
    password = base64.b64encode(token.hmac).decode()
    jaas = f'{SCRAM} username="{token.token_id}" password="{password}" tokenauth="true";'
    return connector_from({**secured.client, "sasl.jaas.config": jaas})


@pytest.mark.parametrize(("maker", "user"), [(OURS, KAFKA_A), (KAFKA_A, OURS), (OURS, OURS)])
async def test_a_token_holds_at_all_brokers(secured: Secured, maker: int, user: int) -> None:
    alice = connector_from(secured.client)
    async with Connections() as connections:
        made_at = await connections.open("localhost", secured.ports[maker], alice)
        key = ApiKey.CREATE_DELEGATION_TOKEN
        token = await made_at.request(
            key, CreateDelegationTokenRequest(max_lifetime_ms=-1), CreateDelegationTokenResponse
        )
        assert token.error_code == ErrorCode.NONE
        assert (token.principal_name, len(token.hmac)) == ("alice", 64)

        async def logs_in() -> bool:
            try:
                used = await connections.open(
                    "localhost", secured.ports[user], by_token(secured, token)
                )
            except LoginError:
                return False
            # Whoever comes by token gets no further ones.
            more = await used.request(
                key, CreateDelegationTokenRequest(), CreateDelegationTokenResponse
            )
            assert more.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert more.principal_name == "alice"
            await used.aclose()
            return True

        await until(logs_in)
        asked_at = await connections.open("localhost", secured.ports[user], alice)
        shown = await asked_at.request(
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            DescribeDelegationTokenRequest(owners=None),
            DescribeDelegationTokenResponse,
        )
        described = {one.token_id: (bytes(one.hmac), one.expiry_timestamp) for one in shown.tokens}
        assert described[token.token_id] == (bytes(token.hmac), token.expiry_timestamp_ms)
        ended = await asked_at.request(
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=-1),
            ExpireDelegationTokenResponse,
        )
        assert ended.error_code == ErrorCode.NONE
        await asked_at.aclose()

        async def is_gone() -> bool:
            gone = await made_at.request(
                ApiKey.EXPIRE_DELEGATION_TOKEN,
                ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=1),
                ExpireDelegationTokenResponse,
            )
            return gone.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND

        await until(is_gone)
        assert not await logs_in()
        await made_at.aclose()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    deadline = trio.current_time() + WAIT_SECONDS
    while not await holds():
        assert trio.current_time() < deadline
        await trio.sleep(0.05)
