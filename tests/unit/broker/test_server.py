"""One whole broker in the test's loop: start, stop, restart, and starts that fail."""

from __future__ import annotations

import gc
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from pybroker_kafka.broker.config import ConfigError
from pybroker_kafka.broker.server import run_broker
from pybroker_kafka.broker.services import Services
from pybroker_kafka.broker.zk.registration import RegistrationError
from pybroker_kafka.broker.zk.zookeeper_client import open_zookeeper
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.protocol.zookeeper.operations import Create, SetData
from pybroker_kafka.replication.controller.znodes import encode_config_change
from pybroker_kafka.replication.partition import Partition
from pybroker_kafka.storage.log_directory import StartupError
from pybroker_kafka.testing import Network
from tests.support.in_process import broker, config_of, zookeeper
from tests.support.network import RawClient, api_versions
from tests.support.sources import needs_sources

CLEAN_MARK = ".kafka_cleanshutdown"


async def create_topic(client: RawClient, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    (result,) = (await client.ask(request, 7)).topics
    assert result.error_code == ErrorCode.NONE, result


async def produce(client: RawClient, topic: str, value: bytes = b"v") -> Any:
    data = PartitionProduceData(index=0, records=build_batch([SimpleRecord(1, None, value)]))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    return (await client.ask(request, 9)).responses[0].partition_responses[0]


def null_devices() -> int:
    """How many descriptors of the null device this process has: spare ones, among others."""
    opened = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the directory's own
            opened += os.readlink(f"/proc/self/fd/{name}") == os.devnull
    return opened


async def test_a_broker_keeps_no_spare_descriptors_behind_its_end(tmp_path: Path) -> None:
    """Its objects may live on: those of the start-up are frozen, and never collected."""
    gc.collect()  # what earlier tests have left must not go meanwhile
    before = null_devices()
    async with zookeeper() as zookeeper_port:
        async with broker(zookeeper_port, tmp_path) as running:
            during = null_devices()
            await running.stop()
        assert null_devices() <= before < during
        with pytest.raises(StartupError, match="doesn't match"):
            await run_broker(config_of(zookeeper_port, tmp_path, broker_id="4"))
        assert null_devices() <= before


async def test_start_stop_restart(tmp_path: Path) -> None:
    async with zookeeper() as zookeeper_port:
        for offset in range(2):
            async with broker(zookeeper_port, tmp_path) as running:
                assert running.bound.broker_id == 3
                client = await running.client()
                if offset == 0:
                    await create_topic(client, "t")
                assert not (tmp_path / CLEAN_MARK).exists()
                answer = await produce(client, "t")
                assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, offset)
                await running.stop()
                assert await client.is_closed()
            assert (tmp_path / CLEAN_MARK).exists()


async def test_a_cancelled_broker_closes_its_logs_cleanly(tmp_path: Path) -> None:
    async with zookeeper() as zookeeper_port:
        async with broker(zookeeper_port, tmp_path) as running:
            await create_topic(await running.client(), "t")
        assert (tmp_path / CLEAN_MARK).exists()


@needs_sources
async def test_a_broken_invariant_ends_it_as_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not contained to the request that met it, and the next start recovers."""

    def broken(*_: object) -> bool:
        raise BrokenInvariant("planted")

    async with zookeeper() as zookeeper_port:
        with pytest.RaisesGroup(BrokenInvariant, flatten_subgroups=True):
            async with broker(zookeeper_port, tmp_path) as running:
                client = await running.client()
                await create_topic(client, "t")
                monkeypatch.setattr(Partition, "maybe_advance_high_watermark", broken)
                with suppress(AssertionError):  # the connection goes with the broker
                    await produce(client, "t")
        monkeypatch.undo()
        assert not (tmp_path / CLEAN_MARK).exists()
        async with broker(zookeeper_port, tmp_path) as running:
            assert (await produce(await running.client(), "t")).base_offset == 1


async def test_what_is_advertised_is_served_and_known(tmp_path: Path) -> None:
    async with zookeeper() as zookeeper_port, broker(zookeeper_port, tmp_path) as running:
        client = await running.client()
        response = await client.ask(api_versions(), 4)
        served = {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}
        for key, versions in served.items():
            spec = API_TABLE[ApiKey(key)]
            assert versions == (spec.min_version, spec.highest())
        assert {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.LEADER_AND_ISR} <= set(
            served
        )
        metadata = await client.ask(MetadataRequest(topics=[]), 9)
        (node,) = metadata.brokers
        assert (node.node_id, node.host, node.port) == (3, "127.0.0.1", running.port)
        assert metadata.controller_id == 3


async def test_failed_starts_leave_nothing_behind(tmp_path: Path) -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    async with zookeeper() as zookeeper_port:
        config = config_of(zookeeper_port, tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port}")
        with pytest.raises(OSError, match=f"listener PLAINTEXT cannot listen on 127.0.0.1:{port}"):
            await run_broker(config)
        taken.close()
        assert (tmp_path / CLEAN_MARK).exists(), "a start that fails is no crash"
        async with broker(zookeeper_port, tmp_path):
            other = config_of(zookeeper_port, tmp_path, broker_id="4")
            with pytest.raises(StartupError, match="lock"):
                await run_broker(other)
            assert not (tmp_path / CLEAN_MARK).exists()
        with pytest.raises(StartupError, match=r"Configured broker\.id 4 doesn't match"):
            await run_broker(config_of(zookeeper_port, tmp_path, broker_id="4"))
    with pytest.raises(ConfigError, match=r"log\.retention\.ms"):
        await run_broker(config_of(1, tmp_path, log_retention_ms="0"))


async def test_a_second_broker_with_the_same_id_is_refused(tmp_path: Path) -> None:
    async with zookeeper() as zookeeper_port, broker(zookeeper_port, tmp_path / "a"):
        with pytest.raises(RegistrationError, match="already registered"):
            await run_broker(config_of(zookeeper_port, tmp_path / "b"))


async def test_a_stop_without_zookeeper_leaves_no_registration_in_the_way(
    tmp_path: Path, network: Network
) -> None:
    """The session of the stopped broker lives on for 18 seconds; its successor closes it."""
    async with zookeeper() as zookeeper_port:
        port = network.front("zookeeper", zookeeper_port)
        async with broker(port, tmp_path) as first:
            network.cut("client", "zookeeper")
            await first.stop()
        assert (tmp_path / CLEAN_MARK).exists()
        async with broker(zookeeper_port, tmp_path) as second:
            assert second.bound.broker_id == first.bound.broker_id


async def test_a_generated_broker_id_is_kept(tmp_path: Path) -> None:
    async with zookeeper() as zookeeper_port:
        for _ in range(2):
            async with broker(zookeeper_port, tmp_path, broker_id="-1") as running:
                assert running.bound.broker_id == 1001


async def test_each_listener_is_told_its_own_addresses(tmp_path: Path) -> None:
    configs: dict[str, Any] = {
        "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
        "listener_security_protocol_map": "IN:PLAINTEXT,OUT:PLAINTEXT",
        "inter_broker_listener_name": "IN",
        "listener_name_out_max_connections": "1",
    }
    async with (
        zookeeper() as zookeeper_port,
        broker(zookeeper_port, tmp_path, **configs) as running,
    ):
        ports = {name: address[1] for name, address in running.bound.listeners.items()}
        assert set(ports) == {"IN", "OUT"}
        for port in ports.values():
            client = RawClient(await trio.open_tcp_stream("127.0.0.1", port))
            (node,) = (await client.ask(MetadataRequest(topics=[]), 9)).brokers
            assert node.port == port
        second = RawClient(await trio.open_tcp_stream("127.0.0.1", ports["OUT"]))
        await second.send(b"\0\0\0\0")
        with trio.move_on_after(0.2) as scope:
            await second.is_closed()
        assert scope.cancelled_caught, "over listener.name.out.max.connections it has to wait"


def alter_request(kind: int, name: str, key: str, value: str | None) -> Any:
    operation = 1 if value is None else 0
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequestAlterableConfig(
                name=key, config_operation=operation, value=value
            )
        ],
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


async def alter(client: RawClient, kind: int, name: str, key: str, value: str | None) -> Any:
    (answer,) = (await client.ask(alter_request(kind, name, key, value), 1)).responses
    return answer


async def described(client: RawClient, kind: int, name: str, key: str) -> Any:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[key]
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = (await client.ask(request, 4)).results
    assert result.error_code == ErrorCode.NONE, result
    return result.configs[0]


TOPIC, BROKER = 2, 4


async def test_altered_configs_take_effect(tmp_path: Path) -> None:
    """A topic's limit, then a broker-wide one; both without a restart, both taken back."""
    async with zookeeper() as zookeeper_port, broker(zookeeper_port, tmp_path) as running:
        client = await running.client()
        await create_topic(client, "t")

        async def accepts(size: int) -> bool:
            code = (await produce(client, "t", b"x" * size)).error_code
            assert code in (ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE)
            return bool(code == ErrorCode.NONE)

        async def until(size: int, accepted: bool) -> None:
            with trio.fail_after(120):
                while await accepts(size) is not accepted:  # noqa: ASYNC110
                    await trio.sleep(0.01)

        assert await accepts(2_000)
        assert (await alter(client, TOPIC, "t", "max.message.bytes", "1000")).error_code == 0
        await until(2_000, False)
        entry = await described(client, TOPIC, "t", "max.message.bytes")
        assert (entry.value, entry.config_source) == ("1000", 1)
        assert (await alter(client, TOPIC, "t", "max.message.bytes", None)).error_code == 0
        await until(2_000, True)
        assert (await alter(client, BROKER, "3", "message.max.bytes", "900")).error_code == 0
        await until(2_000, False)
        entry = await described(client, BROKER, "3", "message.max.bytes")
        assert (entry.value, entry.config_source, entry.read_only) == ("900", 2, False)
        assert [s.source for s in entry.synonyms] == [2, 5]
        entry = await described(client, TOPIC, "t", "max.message.bytes")
        assert (entry.value, entry.config_source) == ("900", 2)
        assert (await alter(client, BROKER, "3", "message.max.bytes", None)).error_code == 0
        await until(2_000, True)


async def test_a_broken_config_in_zookeeper_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with zookeeper() as zookeeper_port, broker(zookeeper_port, tmp_path) as running:
        client = await running.client()
        await create_topic(client, "t")
        await create_topic(client, "u")
        async with open_zookeeper(f"127.0.0.1:{zookeeper_port}") as other:
            written = await other.execute(
                [
                    SetData("/config/topics/t", b"no json"),
                    Create(
                        "/config/changes/config_change_",
                        encode_config_change("topics/t"),
                        sequential=True,
                    ),
                ]
            )
            assert all(result.ok for result in written)
        assert (await alter(client, TOPIC, "u", "max.message.bytes", "200")).error_code == 0
        with trio.fail_after(120):
            while (await produce(client, "u", b"x" * 500)).error_code == ErrorCode.NONE:  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert "The configs of topics/t are left out" in caplog.text
        assert (await produce(client, "t")).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "code"),
    [
        (BROKER, "4", "message.max.bytes", "900", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", "message.max.bytes", "900", ErrorCode.INVALID_REQUEST),
        (BROKER, "3", "message.max.bytes", "-1", ErrorCode.INVALID_REQUEST),
        (BROKER, "3", "broker.rack", "r", ErrorCode.INVALID_REQUEST),
        (BROKER, "", "advertised.listeners", "PLAINTEXT://h:1", ErrorCode.INVALID_REQUEST),
        (BROKER, "3", "num.io.threads", "100", ErrorCode.INVALID_REQUEST),
        (BROKER, "", "num.io.threads", "12", ErrorCode.NONE),
        (TOPIC, "", "retention.ms", "1", ErrorCode.INVALID_REQUEST),
        (TOPIC, "none", "retention.ms", "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "t", "retention.ms", "x", ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", "no.such", "x", ErrorCode.INVALID_CONFIG),
        (16, "t", "retention.ms", "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_alterations_that_are_refused(
    tmp_path: Path, kind: int, name: str, key: str, value: str, code: ErrorCode
) -> None:
    async with zookeeper() as zookeeper_port, broker(zookeeper_port, tmp_path) as running:
        client = await running.client()
        await create_topic(client, "t")
        answer = await alter(client, kind, name, key, value)
        assert answer.error_code == code, answer


async def test_metrics_over_http(tmp_path: Path) -> None:
    async with (
        zookeeper() as zookeeper_port,
        broker(zookeeper_port, tmp_path, metrics_port=0) as running,
    ):
        client = await running.client()
        await create_topic(client, "t")
        await produce(client, "t")
        port = running.bound.metrics_port
        assert port is not None
        text = await http_get(port, "/metrics")
        assert text.startswith("HTTP/1.1 200 OK")
        for line in (
            'kafka_server_brokertopicmetrics_messagesin_total{topic="t"} 1\n',
            'kafka_server_brokertopicmetrics_messagesin_total{topic=""} 1\n',
            'kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 1.0',
            "kafka_controller_kafkacontroller_activecontrollercount 1.0",
            "kafka_server_replicamanager_leadercount 1.0",
            "kafka_server_replicamanager_underreplicatedpartitions 0.0",
            "kafka_server_fetchsessioncache_numincrementalfetchsessions 0.0",
            "kafka_server_delayedproducemetrics_expires_total 0.0",
            "kafka_log_logmanager_offlinelogdirectorycount 0.0",
            "kafka_log_logmanager_logdirectoryoffline{logDirectory=",
            "kafka_server_replicaalterlogdirsmanager_maxlag{clientId=",
            "kafka_network_socketserver_networkprocessoravgidlepercent",
            'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"} 0.0',
            "process_resident_memory_bytes",
        ):
            assert line in text
        assert (await http_get(port, "/other")).startswith("HTTP/1.1 404")


async def http_get(port: int, target: str) -> str:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return b"".join([chunk async for chunk in stream]).decode()


async def test_services_stop_one_after_the_other(autojump_clock: MockClock) -> None:
    ended: list[str] = []

    async def service(name: str, *, task_status: trio.TaskStatus[str]) -> None:
        task_status.started(name)
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            ended.append(name)

    async with trio.open_nursery() as nursery:
        services = Services(nursery)
        for name in "abc":
            assert await services.start(name, service, name) == name
        await services.stop("b", "never started", "a", "c")
        assert ended == ["b", "a", "c"]
