"""How long a consumer group with 10, 100 and 1 000 members takes to rebalance when one more joins.

The members are plain connections in this process that do what a classic consumer does: join, sync,
heartbeat, and join again when an answer says so. They heartbeat every 10 ms, so that what is
measured is the coordinator and not the interval. `formed` is the time from nothing to a stable
group, in which members that come after the first one cause rebalances of their own.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from contextlib import ExitStack
from enum import Enum, auto
from typing import Any

from benchmarks.frames import topic_name
from benchmarks.loads.base import Bench, BrokerCpu, Figure, Figures, Load
from benchmarks.native import LoadError
from pybroker.protocol.api import ApiKey
from pybroker.protocol.framing import decode_response, encode_request
from pybroker.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from pybroker.protocol.schema import Message
from tests.support.frames import joined
from tests.support.wire import WireClient

MEMBERS = (10, 100, 1000)
VERSIONS = {ApiKey.JOIN_GROUP: 3, ApiKey.SYNC_GROUP: 2, ApiKey.HEARTBEAT: 2}
# ILLEGAL_GENERATION and REBALANCE_IN_PROGRESS: join again.
JOIN_AGAIN = (22, 27)
HEARTBEAT_SECONDS = 0.01
LIMIT_SECONDS = 60.0
SESSION_MS = 60_000
METADATA = b"\0\x01\0\0\0\x01\0\x05topic\xff\xff\xff\xff"


class State(Enum):
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


class Member:
    """One member of the group, with at most one request in flight."""

    def __init__(self, address: tuple[str, int], group: str) -> None:
        self.socket = socket.create_connection(address, timeout=LIMIT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.group = group
        self.id = ""
        self.generation = -1
        self.state = State.JOINING
        self.waits_for: ApiKey | None = None

    def join(self) -> None:
        self.state = State.JOINING
        protocol = JoinGroupRequestProtocol(name="range", metadata=METADATA)
        self._post(
            ApiKey.JOIN_GROUP,
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=self.id,
                protocol_type="consumer",
                protocols=[protocol],
            ),
        )

    def heartbeat(self) -> None:
        self._post(
            ApiKey.HEARTBEAT,
            HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.id),
        )

    def take_answer(self) -> None:
        """Receive what this member waits for, and do what a consumer does next."""
        key = self.waits_for
        assert key is not None
        answer = self._receive(key)
        self.waits_for = None
        if answer.error_code in JOIN_AGAIN:
            self.join()
        elif answer.error_code:
            raise LoadError(f"{key.name} is answered with error {answer.error_code}")
        elif key is ApiKey.JOIN_GROUP:
            self._sync(answer)
        elif key is ApiKey.SYNC_GROUP:
            self.state = State.STABLE

    def _sync(self, answer: Any) -> None:
        self.state = State.SYNCING
        self.id, self.generation = answer.member_id, answer.generation_id
        assignments = []
        if answer.leader == answer.member_id:
            assignments = [
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=METADATA)
                for member in answer.members
            ]
        self._post(
            ApiKey.SYNC_GROUP,
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.id,
                assignments=assignments,
            ),
        )

    def _post(self, key: ApiKey, request: Message) -> None:
        parts = encode_request(key, VERSIONS[key], 1, "bench", request)
        self.socket.sendall(joined(parts))
        self.waits_for = key

    def _receive(self, key: ApiKey) -> Any:
        frame = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        return decode_response(key, VERSIONS[key], frame)[1]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            received = self.socket.recv(size - len(data))
            if not received:
                raise LoadError("the coordinator closed a member's connection")
            data += received
        return data


def settle(members: list[Member]) -> float:
    """Until all are stable in one generation; returns the seconds it took."""
    began = time.monotonic()
    next_beat = began
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member.socket, selectors.EVENT_READ, member)
        while True:
            for key, _ in selector.select(HEARTBEAT_SECONDS):
                key.data.take_answer()
            now = time.monotonic()
            if all(member.state is State.STABLE for member in members) and (
                len({member.generation for member in members}) == 1
            ):
                break
            if now - began > LIMIT_SECONDS:
                raise LoadError(f"the group is not stable after {LIMIT_SECONDS:.0f} s")
            if now >= next_beat:
                next_beat = now + HEARTBEAT_SECONDS
                for member in members:
                    if member.state is State.STABLE and member.waits_for is None:
                        member.heartbeat()
        took = time.monotonic() - began
        # A heartbeat may still be under way; its answer belongs to this settling.
        for member in members:
            if member.waits_for is not None:
                member.take_answer()
    return took


def _load(count: int) -> Load:
    def run(bench: Bench) -> Figures:
        cluster = bench.cluster
        group = topic_name("group")
        with WireClient(cluster.bootstrap.partition(",")[0]) as client:
            node = client.coordinator(group)
        with ExitStack() as stack:
            members = [Member((node.host, node.port), group) for _ in range(count)]
            for member in members:
                stack.callback(member.socket.close)
                member.join()
            formed = settle(members)
            late = Member((node.host, node.port), group)
            stack.callback(late.socket.close)
            cpu = BrokerCpu(cluster)
            late.join()
            own = time.process_time()
            rebalanced = settle([*members, late])
            own = time.process_time() - own
            return {
                "rebalance ms": rebalanced * 1e3,
                "broker CPU ms": cpu.spent() * 1e3,
                "client CPU ms": own * 1e3,
                "formed ms": formed * 1e3,
            }

    return Load(
        name=f"groups-{count}",
        family="groups",
        figures=(
            Figure("rebalance ms"),
            Figure("broker CPU ms"),
            Figure("client CPU ms"),
            Figure("formed ms"),
        ),
        run=run,
    )


LOADS = [_load(count) for count in MEMBERS]
