"""A four-letter word whose connection breaks is an error of one line, and the console goes on."""

from __future__ import annotations

import socket
import struct
from typing import Any, cast

import pytest
import trio
from starlette.datastructures import QueryParams

from pybroker_kafka.console.asked import Wrong
from pybroker_kafka.console.collector import Collector
from pybroker_kafka.console.inside import zookeeper_says

RESET_WHEN_CLOSED = struct.pack("ii", 1, 0)


class Nodes:
    def __init__(self, port: int) -> None:
        self.nodes = [
            {"kind": "zookeeper", "name": f"zookeeper-{number}", "host": "127.0.0.1", "port": one}
            for number, one in enumerate((1, port), 1)
        ]


async def reset(stream: trio.SocketStream) -> None:
    await stream.receive_some(4)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_WHEN_CLOSED)
    await stream.aclose()


async def test_a_connection_that_is_reset() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, reset, [listener])
        collector: Any = Nodes(listener.socket.getsockname()[1])
        with pytest.raises(Wrong, match="ZooKeeper does not answer"):
            await zookeeper_says(
                cast(Collector, collector), QueryParams({"word": "srvr", "node": "zookeeper-2"})
            )
        nursery.cancel_scope.cancel()


async def test_the_asked_member_answers() -> None:
    async def answer(stream: trio.SocketStream) -> None:
        assert await stream.receive_some(4) == b"mntr"
        await stream.send_all(b"zk_server_state\tleader\n")
        await stream.aclose()

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        collector: Any = Nodes(listener.socket.getsockname()[1])
        asked = QueryParams({"word": "mntr", "node": "zookeeper-2"})
        found = await zookeeper_says(cast(Collector, collector), asked)
        assert found == {"text": "zk_server_state\tleader\n"}
        with pytest.raises(Wrong):
            await zookeeper_says(
                cast(Collector, collector), QueryParams({"word": "mntr", "node": "zookeeper-9"})
            )
        nursery.cancel_scope.cancel()
