"""The TCP connections of a client."""

from __future__ import annotations

import socket
import sys

import pytest
import trio

from pybroker_kafka.client.security import connector


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has another name for the first option")
async def test_a_broker_whose_machine_is_gone_is_noticed_within_a_minute() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
        async with await connector.reach("127.0.0.1", port) as stream:
            assert stream.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            idle, interval, count = (
                stream.socket.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
            assert idle + interval * count <= 60
            assert stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
