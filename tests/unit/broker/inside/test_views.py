"""Questions over the metrics port: what is answered, what is refused, and what stays hidden."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.inside.views import Inside
from pybroker_kafka.broker.inside.znodes import HIDDEN, znode
from pybroker_kafka.broker.observability.client_telemetry import ClientValues
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.broker.observability.metrics_http import ViewUnavailable, serve_metrics
from pybroker_kafka.protocol.zookeeper.constants import ZkCode
from pybroker_kafka.protocol.zookeeper.operations import ZkResult, ZkStat

NOBODY: Mapping[str, str] = {}


class Replicas:
    partitions: Mapping[tuple[str, int], object] = {}


def inside(*, is_guarded: bool = False) -> Inside:
    nothing: Any = Replicas()
    return Inside(
        nothing, nothing, list, list, ClientValues(), list, lambda: 0, is_guarded=is_guarded
    )


@pytest.mark.parametrize(
    ("name", "query", "said"),
    [
        ("", {}, "there are: waiting, files, look-up, replica, znode, clients, in-flight"),
        ("files", {"topic": "t", "partition": "0"}, "this broker has no replica of t-0"),
        ("files", {"topic": "t", "partition": "x"}, "partition: a whole number is wanted"),
        ("look-up", {"topic": "t", "partition": "9" * 30}, "partition: a whole number is wanted"),
        ("znode", {"path": "brokers"}, "'brokers' is no path of a znode"),
        ("znode", {"path": "/brokers//ids"}, "'/brokers//ids' is no path of a znode"),
    ],
)
async def test_wrong_questions(name: str, query: Mapping[str, str], said: str) -> None:
    with pytest.raises(ViewUnavailable, match=said):
        await inside().answer(name, query)


async def test_a_broker_that_asks_who_may_see_what_tells_nobody() -> None:
    for name in ("waiting", "znode", "nothing"):
        with pytest.raises(ViewUnavailable, match="it shows nothing of its inside"):
            await inside(is_guarded=True).answer(name, NOBODY)


class Tree:
    """A ZooKeeper with one znode."""

    async def execute(self, operations: list[object]) -> list[ZkResult]:
        path = operations[0].path  # type: ignore[attr-defined]
        if path == "/missing":
            return [ZkResult(ZkCode.NO_NODE)] * 3
        stat = ZkStat(7, 1000, 2, 3, 0xAB, 1)
        return [ZkResult(stat=stat), ZkResult(children=("a",)), ZkResult(data=b'{"x":1}')]


async def test_secrets_of_zookeeper_are_hidden() -> None:
    tree = Tree()
    shown = await znode(tree, "/brokers/ids/1")  # type: ignore[arg-type]
    assert shown is not None
    assert (shown["data"], shown["session"], shown["children"]) == ('{"x":1}', "0xab", ["a"])
    for path in ("/config/users/ann", "/config/brokers/1", "/delegation_token/tokens/t"):
        hidden = await znode(tree, path)  # type: ignore[arg-type]
        assert hidden is not None
        assert hidden["data"] == HIDDEN
    assert await znode(tree, "/missing") is None  # type: ignore[arg-type]


async def test_over_the_metrics_port() -> None:
    async def answer(name: str, query: Mapping[str, str]) -> object:
        if name == "wrong":
            raise ViewUnavailable("that cannot be told")
        if name == "fails":
            raise KeyError(name)
        return {"name": name, **query}

    async def get(port: int, target: str, host: str = "[::1]:80") -> tuple[bytes, object]:
        received = b""
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            async for chunk in stream:
                received += chunk
        head, _, body = received.partition(b"\r\n\r\n")
        return head.split(b"\r\n", 1)[0], json.loads(body) if b"json" in head else None

    async def serve(task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        await serve_metrics(BrokerMetrics(), 0, inside=answer, task_status=task_status)

    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve)
        assert await get(port, "/inside/files?topic=a%20b&partition=1") == (
            b"HTTP/1.1 200 OK",
            {"name": "files", "topic": "a b", "partition": "1"},
        )
        assert await get(port, "/inside/wrong") == (
            b"HTTP/1.1 400 Bad Request",
            {"error": "that cannot be told"},
        )
        failed = (b"HTTP/1.1 500 Internal Server Error", {"error": "it failed; see the log"})
        assert await get(port, "/inside/fails") == failed
        for host in ("evil.example", "evil.example:80", ""):
            status, told = await get(port, "/inside/files", host)
            assert status == b"HTTP/1.1 400 Bad Request"
            assert "an IP address in the URL, not a name" in str(told)
        for host in ("localhost:7", "127.0.0.1", "10.0.0.1:1"):
            assert (await get(port, "/inside/files", host))[0] == b"HTTP/1.1 200 OK"
        for odd in ("//[", "/inside/%ff?%zz=1&&=", "*"):
            await get(port, odd)
        assert (await get(port, "/inside"))[0] == b"HTTP/1.1 404 Not Found"
        nursery.cancel_scope.cancel()
