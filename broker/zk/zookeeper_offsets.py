"""Committed offsets in ZooKeeper, where OffsetCommit and OffsetFetch of version 0 keep them.

A decimal number in /consumers/<group>/offsets/<topic>/<partition>, as consumers before 0.9 did.
Mirrors KafkaZkClient.getConsumerOffset and setOrCreateConsumerOffset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Flow,
    GetData,
    SessionExpired,
    SetData,
    ZkError,
    create_recursive,
    expect,
    run_one,
)

if TYPE_CHECKING:
    from .zookeeper_client import ZooKeeperClient


def offset_path(group: str, topic: str, partition: int) -> str:
    return f"/consumers/{group}/offsets/{topic}/{partition}"


def _read(path: str) -> Flow[int | None]:
    result = yield from run_one(GetData(path))
    expect(result, path, ZkCode.NO_NODE)
    text = (result.data or b"").decode("ascii", "replace").strip()
    return int(text) if text.lstrip("-").isdecimal() else None


def _write(path: str, offset: int) -> Flow[None]:
    data = str(offset).encode()
    result = yield from run_one(SetData(path, data))
    if result.code is ZkCode.NO_NODE:
        yield from create_recursive(path, data)
    else:
        expect(result, path)


class ZooKeeperOffsets:
    __slots__ = ("_client",)

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client

    async def get_offset(self, group: str, topic: str, partition: int) -> int | None:
        try:
            return await self._client.run(_read(offset_path(group, topic, partition)))
        except (SessionExpired, ZkError) as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error

    async def set_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        try:
            await self._client.run(_write(offset_path(group, topic, partition), offset))
        except (SessionExpired, ZkError) as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
