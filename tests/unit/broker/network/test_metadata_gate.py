"""What is answered from the metadata waits until there is some; the rest does not."""

from __future__ import annotations

import trio

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.framing import decode_response
from tests.support.network import api_versions, frame_of, heartbeat, running_network


async def test_requests_about_the_cluster_are_held_back_and_then_answered_in_order() -> None:
    async with running_network() as network:
        network.dispatcher.hold_back()
        early, other = await network.connect(), await network.connect()
        request = MetadataRequest(topics=[])
        await early.send(frame_of(request, 12, 7) + heartbeat("behind it", 8))
        answer = await other.ask(api_versions(), 3)
        assert answer.error_code == 0
        await other.send(heartbeat("not held", 2))
        assert await other.receive_frame() is not None
        assert network.heartbeats.seen == ["not held"]
        network.dispatcher.open()
        frame = await early.receive_frame()
        assert frame is not None
        assert decode_response(ApiKey.METADATA, 12, frame)[0] == 7
        frame = await early.receive_frame()
        assert frame is not None
        assert decode_response(ApiKey.HEARTBEAT, 4, frame)[0] == 8
        answer = await other.ask(request, 12, 3)
        assert answer.cluster_id == "cluster"


async def test_who_leaves_while_waiting_is_forgotten() -> None:
    async with running_network() as network:
        network.dispatcher.hold_back()
        early = await network.connect()
        await early.send(frame_of(MetadataRequest(topics=[]), 12, 7))
        await trio.testing.wait_all_tasks_blocked()
        await early.stream.aclose()  # a muted connection is not read, so nobody notices yet
        late = await network.connect()
        network.dispatcher.open()
        assert (await late.ask(MetadataRequest(topics=[]), 12)).cluster_id == "cluster"
        await network.wait_for_connections(1)
