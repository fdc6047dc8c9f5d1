"""How long a consumer group with 10, 100 and 1 000 members takes to rebalance when one more joins.

The members are plain connections in this process that do what a classic consumer does: join, sync,
heartbeat, and join again when an answer says so. They heartbeat every 10 ms, and the first time a
millisecond behind the one that joins, so that what is measured is the coordinator and not the
interval; at the same time, some would be answered before it is in.
`formed` is the time from nothing to a stable group, in which members that come after the first one
cause rebalances of their own.

A member costs this process little, or its members would be what is measured: requests are made of
bytes that are encoded once, answers are read by their places. Only the leader, who needs the names
of all, has its answer decoded.
"""

from __future__ import annotations

import select
import socket
from contextlib import closing
from enum import Enum, auto
from struct import Struct
from time import monotonic, process_time
from typing import Any

from benchmarks.frames import topic_name
from benchmarks.loads.base import Bench, BrokerCpu, Figure, Figures, Load
from benchmarks.native import LoadError
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker_kafka.protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker_kafka.protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker_kafka.protocol.framing import decode_response, encode_request
from pybroker_kafka.protocol.schema import Message
from tests.support.frames import joined
from tests.support.wire import WireClient

MEMBERS = (10, 100, 1000)
VERSIONS = {ApiKey.JOIN_GROUP: 3, ApiKey.SYNC_GROUP: 2, ApiKey.HEARTBEAT: 2}
# ILLEGAL_GENERATION and REBALANCE_IN_PROGRESS: join again.
JOIN_AGAIN = (22, 27)
HEARTBEAT_SECONDS = 0.01
FIRST_HEARTBEAT_SECONDS = 0.001
LIMIT_SECONDS = 60
SESSION_MS = 60_000
METADATA = b"\0\x01\0\0\0\x01\0\x05topic\xff\xff\xff\xff"
RECEIVE_BYTES = 16 * 1024

# What the templates have in the place of a member's own id and generation.
_SOME_ID = "a member's id"
_SOME_GENERATION = 0x5A11C0DE
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_TIMEVAL = Struct("ll")
# Of all three answers: size, correlation id, throttle time, error code.
_ANSWER = Struct(">iiih")
_ASSIGNED = _INT32.pack(len(METADATA)) + METADATA


class Template:
    """A request that is encoded once, with the places of a member's id and, before it, of the
    generation."""

    def __init__(self, key: ApiKey, request: Message) -> None:
        frame = joined(encode_request(key, VERSIONS[key], 1, "bench", request))
        name = _SOME_ID.encode()
        head, _, self._tail = frame[4:].partition(_INT16.pack(len(name)) + name)
        self._head = head.removesuffix(_INT32.pack(_SOME_GENERATION))

    def frame(self, generation: bytes, member_id: bytes) -> bytes:
        """`generation` is nothing in a request that has none."""
        tail = self._tail
        length = _INT16.pack(len(member_id))
        size = _INT32.pack(len(self._head) + len(generation) + 2 + len(member_id) + len(tail))
        return b"".join((size, self._head, generation, length, member_id, tail))


class State(Enum):
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


class Group:
    """The members of one group: what their requests have in common, and how far they are."""

    def __init__(self, bench: Bench) -> None:
        self.name = topic_name("group")
        with WireClient(bench.cluster.bootstrap.partition(",")[0]) as client:
            node = client.coordinator(self.name)
        self.address = node.host, node.port
        self.members: dict[int, Member] = {}  # by their sockets
        self.poll = select.epoll()
        # How many are stable in the newest generation that one of them is stable in.
        self.stable = 0
        self.generation = -1
        protocol = JoinGroupRequestProtocol(name="range", metadata=METADATA)
        self.join = Template(
            ApiKey.JOIN_GROUP,
            JoinGroupRequest(
                group_id=self.name,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=_SOME_ID,
                protocol_type="consumer",
                protocols=[protocol],
            ),
        )
        self.sync = Template(ApiKey.SYNC_GROUP, self.sync_request(_SOME_GENERATION, _SOME_ID))
        self.heartbeat = Template(
            ApiKey.HEARTBEAT,
            HeartbeatRequest(
                group_id=self.name, generation_id=_SOME_GENERATION, member_id=_SOME_ID
            ),
        )

    def sync_request(self, generation: int, member_id: str) -> SyncGroupRequest:
        return SyncGroupRequest(group_id=self.name, generation_id=generation, member_id=member_id)

    def connect(self) -> Member:
        """One more member, which is to join."""
        member = Member(self)
        self.members[member.socket.fileno()] = member
        self.poll.register(member.socket, select.EPOLLIN)
        return member

    def close(self) -> None:
        """All leave, so that no session ends while another load is measured."""
        leaving = [MemberIdentity(member_id=member.id.decode()) for member in self.members.values()]
        with WireClient("{}:{}".format(*self.address)) as client:
            client.call(LeaveGroupRequest(group_id=self.name, members=leaving), 3)
        self.poll.close()
        for member in self.members.values():
            member.socket.close()

    def is_stable(self, generation: int) -> None:
        """One more member has its assignment in this generation."""
        if generation > self.generation:
            self.generation = generation
            self.stable = 0
        self.stable += generation == self.generation

    def settle(self) -> float:
        """Until all are stable in one generation; returns the seconds it took."""
        members = self.members
        began = now = monotonic()
        next_beat = began + FIRST_HEARTBEAT_SECONDS
        while self.stable < len(members):
            if now - began > LIMIT_SECONDS:
                raise LoadError(f"the group is not stable after {LIMIT_SECONDS} s")
            if now >= next_beat:
                next_beat = now + HEARTBEAT_SECONDS
                for member in members.values():
                    if member.state is State.STABLE and member.waits_for is None:
                        member.heartbeat()
            for place, _ in self.poll.poll(max(0.0, next_beat - now)):
                members[place].take_answer()
            now = monotonic()
        took = monotonic() - began
        # A heartbeat may still be under way; its answer belongs to this settling.
        for member in members.values():
            if member.waits_for is not None:
                member.take_answer()
        return took


class Member:
    """One member of the group, with at most one request in flight."""

    def __init__(self, group: Group) -> None:
        self.socket = socket.create_connection(group.address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A limit that the kernel keeps: for one of its own, Python polls before each call.
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, _TIMEVAL.pack(LIMIT_SECONDS, 0))
        self.group = group
        self.id = b""
        self.generation = -1
        self.state = State.JOINING
        self.waits_for: ApiKey | None = None

    def join(self) -> None:
        self.state = State.JOINING
        self._post(ApiKey.JOIN_GROUP, self.group.join.frame(b"", self.id))

    def heartbeat(self) -> None:
        generation = _INT32.pack(self.generation)
        self._post(ApiKey.HEARTBEAT, self.group.heartbeat.frame(generation, self.id))

    def take_answer(self) -> None:
        """Receive what this member waits for, and do what a consumer does next."""
        key = self.waits_for
        answer = self._receive()
        self.waits_for = None
        error = _ANSWER.unpack_from(answer)[3]
        if error in JOIN_AGAIN:
            self.join()
        elif error or key is None:
            raise LoadError(f"{key} is answered with error {error}")
        elif key is ApiKey.JOIN_GROUP:
            self._sync(answer)
        elif key is ApiKey.SYNC_GROUP:
            if answer[_ANSWER.size :] != _ASSIGNED:
                raise LoadError("a member does not get what the leader has assigned to it")
            self.state = State.STABLE
            self.group.is_stable(self.generation)

    def _sync(self, answer: bytes) -> None:
        """Read generation, protocol, leader and id of a JoinGroup's answer, and go on."""
        self.state = State.SYNCING
        (self.generation,) = _INT32.unpack_from(answer, _ANSWER.size)
        _, position = _text(answer, _ANSWER.size + _INT32.size)
        leader, position = _text(answer, position)
        self.id, _ = _text(answer, position)
        if leader == self.id:
            frame = self._assignments(answer)
        else:
            frame = self.group.sync.frame(_INT32.pack(self.generation), self.id)
        self._post(ApiKey.SYNC_GROUP, frame)

    def _assignments(self, answer: bytes) -> bytes:
        key = ApiKey.JOIN_GROUP
        joined_group: Any = decode_response(key, VERSIONS[key], answer[4:])[1]
        request = self.group.sync_request(self.generation, self.id.decode())
        request.assignments = [
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=METADATA)
            for member in joined_group.members
        ]
        key = ApiKey.SYNC_GROUP
        return joined(encode_request(key, VERSIONS[key], 1, "bench", request))

    def _post(self, key: ApiKey, frame: bytes) -> None:
        self.socket.sendall(frame)
        self.waits_for = key

    def _receive(self) -> bytes:
        """A whole answer, with its size; there is no other behind it."""
        data = self._some()
        while len(data) < 4 or len(data) < 4 + _INT32.unpack_from(data)[0]:
            data += self._some()
        return data

    def _some(self) -> bytes:
        received = self.socket.recv(RECEIVE_BYTES)
        if not received:
            raise LoadError("the coordinator closed a member's connection")
        return received


def _text(data: bytes, position: int) -> tuple[bytes, int]:
    """A string, and the place behind it."""
    begin = position + 2
    end = begin + _INT16.unpack_from(data, position)[0]
    return data[begin:end], end


def _load(count: int) -> Load:
    def run(bench: Bench) -> Figures:
        with closing(Group(bench)) as group:
            for member in [group.connect() for _ in range(count)]:
                member.join()
            formed = group.settle()
            late = group.connect()
            cpu = BrokerCpu(bench.cluster)
            late.join()
            own = process_time()
            rebalanced = group.settle()
            own = process_time() - own
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
