"""Requests full of nonsense, well formed and not: the broker answers or closes, and lives.

Every served API in every version, with random field values that its version can express, and the
same frames with bytes changed. What comes back must be a response of that version; no handler may
fail with an exception; afterwards the broker serves as before.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
import trio

from pybroker_kafka.broker.security.acl_authorizer import AclAuthorizer
from pybroker_kafka.protocol.acls import AclOperation
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, request_class
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.framing import decode_response
from tests.support.in_process import RunningBroker, broker, zookeeper
from tests.support.message_factory import MessageFactory
from tests.support.network import RawClient, api_versions, frame_of

MESSAGES_PER_VERSION = 3
ANSWER_WITHIN_SECONDS = 0.2
AT_ONCE = 16
# Sent by controllers, which a broker trusts: they would stop or change what is tested here.
TRUSTED = {ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA}


async def served(running: RunningBroker) -> list[ApiKey]:
    client = await running.client()
    response = await client.ask(api_versions(), 4)
    return [ApiKey(key.api_key) for key in response.api_keys]


async def send_and_see(running: RunningBroker, frame: bytes, key: ApiKey, version: int) -> None:
    """The answer is a response, the end of the connection, or nothing for now."""
    client = await running.client()
    try:
        await client.send(frame)
        with trio.move_on_after(ANSWER_WITHIN_SECONDS):
            answer = await client.receive_frame()
            if answer is not None:
                decode_response(key, version, answer)
    finally:
        await client.stream.aclose()


async def bombard(running: RunningBroker, frames: list[tuple[bytes, ApiKey, int]]) -> None:
    limiter = trio.CapacityLimiter(AT_ONCE)

    async def one(frame: bytes, key: ApiKey, version: int) -> None:
        async with limiter:
            await send_and_see(running, frame, key, version)

    async with trio.open_nursery() as nursery:
        for frame in frames:
            nursery.start_soon(one, *frame)


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        f"{record.getMessage()}: {record.exc_info[1]!r}"
        for record in caplog.records
        if record.exc_info
    ]


async def assert_alive(running: RunningBroker) -> None:
    client: RawClient = await running.client()
    response = await client.ask(MetadataRequest(topics=[]), 12)
    assert [node.node_id for node in response.brokers] == [3]
    assert response.controller_id == 3


@pytest.mark.parametrize("seed", range(2))
async def test_well_formed_nonsense(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    await survive(tmp_path, caplog, seed, lambda frame, rng: frame)


@pytest.mark.parametrize("seed", range(2))
async def test_damaged_frames(tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int) -> None:
    await survive(tmp_path, caplog, seed, damaged)


@pytest.mark.parametrize("seed", range(2))
async def test_nonsense_of_clients_that_may_do_some_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int
) -> None:
    """Each decision is drawn by lot, but that the brokers may do what brokers do."""
    lots = random.Random(seed)

    def decide(_: object, __: object, ___: str, operation: AclOperation, *____: object) -> bool:
        return operation is AclOperation.CLUSTER_ACTION or lots.random() < 0.5

    with patch.object(AclAuthorizer, "allows", decide):
        await survive(
            tmp_path, caplog, seed, lambda frame, rng: frame,
            authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
        )  # fmt: skip


def damaged(frame: bytes, rng: random.Random) -> bytes:
    """Some bytes behind the API and its version changed, and cut at any place."""
    data = bytearray(frame)
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(8, len(data))] = rng.randrange(256)
    data = data[: rng.randint(9, len(data))]
    data[:4] = (len(data) - 4).to_bytes(4, "big")
    return bytes(data)


async def survive(
    directory: Path,
    caplog: pytest.LogCaptureFixture,
    seed: int,
    change: Callable[[bytes, random.Random], bytes],
    **configs: str,
) -> None:
    """Send requests of any content to a broker, and see that it lives and no handler has failed."""
    rng = random.Random(seed)
    caplog.set_level(logging.WARNING)
    async with (
        zookeeper() as zookeeper_port,
        broker(zookeeper_port, directory, None, **configs) as running,
    ):
        frames = []
        for key in await served(running):
            spec = API_TABLE[key]
            if key in TRUSTED:
                continue
            for version in range(spec.min_version, spec.max_version + 1):
                for _ in range(MESSAGES_PER_VERSION):
                    message = MessageFactory(rng.randbytes(300)).make(request_class(key), version)
                    frames.append((change(frame_of(message, version, 1), rng), key, version))
        rng.shuffle(frames)
        await bombard(running, frames)
        await assert_alive(running)
        assert failures(caplog) == [], f"seed {seed}"
