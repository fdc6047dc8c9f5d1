"""Members over real sockets, in one loop: clients that wait for an election.

What members do as processes is tested in `tests/compat/test_zookeeper_ensembles.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from pybroker_kafka.broker.zookeeper import member_server
from pybroker_kafka.broker.zookeeper.member_server import serve_member
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.jute import ConnectRequest, ConnectResponse
from pybroker_kafka.zookeeper.passwords import PASSWORD_SIZE
from pybroker_kafka.zookeeper.quorum import election
from pybroker_kafka.zookeeper.quorum.ensemble_config import EnsembleConfig, parse_config
from tests.support.processes import free_port

HOST = "127.0.0.1"
LONG_S = 120.0


def configs_in(directory: Path, count: int = 3) -> list[EnsembleConfig]:
    servers = {
        f"server.{n}": f"{HOST}:{free_port()}:{free_port()};{HOST}:{free_port()}"
        for n in range(1, count + 1)
    }
    limits = {"tickTime": "500", "initLimit": "100", "syncLimit": "100"}
    return [
        parse_config({"dataDir": str(directory / str(n)), **limits, **servers}, str(n))
        for n in range(1, count + 1)
    ]


async def connecting(port: int) -> trio.SocketStream:
    """A client that has sent its connect request."""
    client = await trio.open_tcp_stream(HOST, port)
    request = jute.encode(ConnectRequest(0, 0, 10_000, 0, bytes(PASSWORD_SIZE))) + b"\0"
    await client.send_all(len(request).to_bytes(4, "big") + request)
    return client


def test_a_client_waits_for_an_election_that_waits_for_nobody_who_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_server, "LEADERLESS_PATIENCE_S", LONG_S)
    monkeypatch.setattr(election, "FINALIZE_MS", int(10 * LONG_S * 1000))
    first, second, _ = configs_in(tmp_path)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            client = await connecting(await nursery.start(serve_member, first))
            await nursery.start(serve_member, second)
            with trio.fail_after(LONG_S):
                answer = bytes(await client.receive_some())
            assert jute.decode(ConnectResponse, answer[4:]).session_id >> 56 == 1
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_client_is_sent_away_when_no_leader_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_server, "LEADERLESS_PATIENCE_S", 0.01)
    first, *_ = configs_in(tmp_path)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            client = await connecting(await nursery.start(serve_member, first))
            with trio.fail_after(LONG_S):
                assert await client.receive_some() == b""
            nursery.cancel_scope.cancel()

    trio.run(main)
