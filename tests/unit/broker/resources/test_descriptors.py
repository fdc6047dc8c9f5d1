"""Connections and file descriptors: too few for one more connection, and who makes room then."""

from __future__ import annotations

import resource

import pytest
import trio

from pybroker_kafka.broker.network import idle_connections, socket_server
from pybroker_kafka.broker.replicas import log_jobs
from pybroker_kafka.broker.resources import descriptors
from pybroker_kafka.broker.resources.descriptors import (
    TooFewDescriptors,
    connection_limit,
    raise_descriptor_limit,
)
from pybroker_kafka.storage.log_jobs import Job
from tests.support.descriptors import no_descriptors
from tests.support.network import api_versions, heartbeat, running_network


async def test_a_connection_too_many_is_refused_and_idle_ones_make_room(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(socket_server, "MAX_SWEEP_SECONDS", 0.05)
    async with running_network() as network:
        quotas = network.server.quotas
        client, parked, silent = [await network.connect() for _ in range(3)]
        await client.ask(api_versions(), 3)
        await parked.send(heartbeat("park", 1))
        await network.wait_for_connections(3)
        quotas.descriptors = 0
        assert await (await network.connect()).is_closed()
        assert await (await network.connect()).is_closed()
        assert caplog.text.count("Refusing connections on listener PLAINTEXT: there are 3") == 1
        await trio.sleep(0.1)
        assert network.connections == 3, "all of them have just been heard of"
        for left, gone, limit in ((2, silent, "SILENT_SECONDS"), (1, client, "IDLE_SECONDS")):
            monkeypatch.setattr(idle_connections, limit, 0.0)
            assert await (await network.connect()).is_closed()
            await network.wait_for_connections(left)
            assert await gone.is_closed()
        assert await (await network.connect()).is_closed()
        await trio.sleep(0.1)
        assert network.connections == 1, "a request is in progress there"
        quotas.descriptors = 10_000
        await (await network.connect()).ask(api_versions(), 3)


async def test_an_accept_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async with running_network() as network:
        with no_descriptors(left=1):
            client = await network.connect()
            await client.send(heartbeat("waits", 1))
            await trio.sleep(0.2)
            assert network.heartbeats.seen == []
        assert await client.receive_frame() is not None
    assert caplog.text.count("Refusing connections") == 1


async def test_a_storage_job_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_jobs, "TICK_SECONDS", 0.01)
    outcomes: list[OSError | None] = [OSError(24, "Too many open files"), OSError(23, "ENFILE")]

    def run() -> None:
        if outcomes:
            raise outcomes.pop()  # type: ignore[misc]

    with trio.fail_after(120):
        await log_jobs._run_job(Job("write it", run), trio.CapacityLimiter(1))
    assert outcomes == []
    assert caplog.text.count("The job to write it is tried again") == 2


def test_the_soft_limit_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        raise_descriptor_limit()
        assert descriptors.descriptor_limit() == hard
        monkeypatch.setattr(descriptors, "MIN_DESCRIPTORS", hard + 1)
        with pytest.raises(TooFewDescriptors, match=rf"only {hard} files .*\(ulimit -Hn"):
            raise_descriptor_limit()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(
    ("limit", "of_many"), [(128, 80), (256, 192), (1024, 768), (1 << 20, (1 << 20) - 4096)]
)
def test_what_is_left_for_connections(limit: int, of_many: int) -> None:
    """Many leave a share to the logs; few may have what the logs have left."""
    assert connection_limit(limit // 2, limit) == of_many
    assert connection_limit(limit - 1, limit) == of_many
    assert connection_limit(limit // 2 - 1, limit) == limit - 48
    assert connection_limit(0, limit) == limit - 48
