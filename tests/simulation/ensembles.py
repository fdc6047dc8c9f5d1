"""Ensembles of ZooKeeper members in virtual time: a seed decides kills, power cuts, partitions.

The members are the real machines (`zookeeper.quorum.member`); here are their disks, their network
and their clients. A disk keeps what was flushed, and of the rest a random part at a power cut. The
election port may lose messages; a stream loses nothing, but breaks. Each client creates nodes with
numbers, one after the other, reads each behind the create, and notes what was acknowledged. All of
them write one register, too, and read it behind a sync.

Checked all the time: one leader an epoch; a zxid has one content on all members; a client's answers
come in order, and a read behind a write sees it. `Register` checks the register. At the end, when
all are well again: equal trees, all acknowledged nodes, no ephemeral node without its session.

    python -m tests.simulation.ensembles --seeds 100 [--first 1] [--plant NAME]
"""

import argparse
import heapq
import itertools
import random
import sys
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, CreateMode, Op
from pybroker_kafka.protocol.zookeeper.jute import (
    ConnectRequest,
    CreateRequest,
    GetDataResponse,
    PathRequest,
    PathResponse,
    PathWatchRequest,
    SetDataRequest,
    StatResponse,
)
from pybroker_kafka.zookeeper.quorum.ensemble_machine import EnsembleMachine, MemberSessions
from pybroker_kafka.zookeeper.quorum.leader import Leader, Limits, Piece
from pybroker_kafka.zookeeper.quorum.learner import Epochs
from pybroker_kafka.zookeeper.quorum.member import LEADER_LINK, EnsembleSpec, Member
from pybroker_kafka.zookeeper.snapshot import Capture, capture, decode_snapshot, encode_snapshot
from pybroker_kafka.zookeeper.transactions import (
    CloseSessionTxn,
    CreateSessionTxn,
    Txn,
    decode_txn,
)
from pybroker_kafka.zookeeper.tree import DataTree

LIMITS = Limits(tick_ms=100, init_limit=20, sync_limit=6)
START_MS = 1_700_000_000_000
CHAOS_MS = 15_000
CALM_MS = 30_000
SLOW_MS = 150
PLANTS = ("ack_before_fsync", "commit_without_quorum", "wrong_truncation", "sync_without_leader")
REGISTER, FIRST_VALUE = "/register", b"x"
WRITES_OF_REGISTER, READS_OF_REGISTER = 0.25, 0.25


_REPLY = Struct(">iqi")  # xid, zxid, error


class Violation(AssertionError):
    """A promise was broken; the message has the facts."""


class Disk:
    """A member's files: what a power cut leaves is `flushed`, `base` and the epochs."""

    def __init__(self, plant: str | None) -> None:
        self.base: Capture = capture(DataTree(), {})
        self.flushed: list[bytes] = []
        self.waiting: list[bytes] = []
        self._epochs = Epochs(0, 0)
        self._plant = plant

    @property
    def epochs(self) -> Epochs:
        return self._epochs

    def save_accepted_epoch(self, epoch: int) -> None:
        self._epochs = self._epochs._replace(accepted=epoch)

    def save_current_epoch(self, epoch: int) -> None:
        self._epochs = self._epochs._replace(current=epoch)

    def load(self) -> tuple[DataTree, dict[int, int], list[Txn]]:
        tree, sessions = decode_snapshot(b"".join(encode_snapshot(self.base)))
        txns = [decode_txn(record) for record in self.flushed]
        for txn in txns:
            tree.apply(txn)
            if isinstance(txn.body, CreateSessionTxn):
                sessions[txn.header.session_id] = txn.body.timeout_ms
            elif isinstance(txn.body, CloseSessionTxn):
                sessions.pop(txn.header.session_id, None)
        return tree, sessions, txns

    def truncate(self, zxid: int) -> tuple[DataTree, dict[int, int]] | None:
        if self.base.zxid > zxid:
            return None
        kept = [record for record in self.flushed if decode_txn(record).header.zxid <= zxid]
        if self._plant == "wrong_truncation":
            kept = self.flushed[: len(kept) + 1]
        self.flushed = kept
        tree, sessions, _ = self.load()
        tree.last_zxid = zxid if self._plant == "wrong_truncation" else tree.last_zxid
        return (tree, sessions) if tree.last_zxid == zxid else None

    def install(self, captured: Capture) -> None:
        self.base = captured
        self.flushed = []

    def snapshot(self, tree: DataTree, sessions: dict[int, int]) -> None:
        self.base = capture(tree, sessions)
        self.flushed = []


class Found(NamedTuple):
    """The answer to a read, and the epoch of the leader whom its member follows."""

    stat: jute.Stat
    epoch: int


class Register:
    """The history of one node that all clients write and read, and its checks.

    Writes are linearizable: a write that begins after the answer to another has a larger zxid, no
    two have one version, and versions follow the zxids. A read sees a value that was written at its
    zxid, and no older one than its client saw before. Behind a sync it sees all writes that were
    acknowledged when the sync began, those of newer leaders excepted than its member follows: as
    in ZooKeeper, a sync does not ask a quorum.
    """

    def __init__(self) -> None:
        self.acked: list[int] = []  # zxids of writes, in the order of their answers
        self.asked = {FIRST_VALUE}
        self.values: dict[int, tuple[bytes, int]] = {}  # value and version by zxid
        self.reads = 0

    def newest(self) -> int:
        return max(self.acked, default=0)

    def wrote(self, client: int, floor: int, value: bytes, stat: jute.Stat) -> None:
        if stat.mzxid <= floor:
            raise Violation(
                f"client {client} wrote at {stat.mzxid:#x} after the answer to {floor:#x}"
            )
        self.saw(value, stat)
        self.acked.append(stat.mzxid)

    def read(self, client: int, floor: int, seen: int, value: bytes, found: Found) -> None:
        """`seen`: the newest zxid that the client saw before."""
        stat, epoch = found
        self.reads += 1
        if value not in self.asked:
            raise Violation(f"client {client} reads {value!r}, which was not written")
        if stat.mzxid < seen:
            raise Violation(f"client {client} reads {stat.mzxid:#x} after {seen:#x}")
        if stat.mzxid < floor and floor >> 32 <= epoch:
            raise Violation(
                f"client {client} reads {stat.mzxid:#x} behind a sync that began after {floor:#x}"
            )
        self.saw(value, stat)

    def saw(self, value: bytes, stat: jute.Stat) -> None:
        known = self.values.setdefault(stat.mzxid, (value, stat.version))
        if known != (value, stat.version):
            raise Violation(f"the register has {known} and {value!r} at {stat.mzxid:#x}")

    def check_versions(self) -> None:
        versions = [version for _, (_, version) in sorted(self.values.items())]
        if versions != sorted(set(versions)):
            raise Violation(f"versions of the register do not follow its zxids: {versions}")


class Stream(NamedTuple):
    """A connection of the quorum port, from a learner to the one that it takes for its leader."""

    number: int
    learner: int
    leader: int


class Node:
    def __init__(self, number: int, plant: str | None) -> None:
        self.number = number
        self.disk = Disk(plant)
        self.member: Member | None = None
        self.life = 0
        self.streams: dict[object, Stream] = {}
        self.is_flushing = False
        self.timer_ms: int | None = None


class SimClient:
    """Creates nodes, one request at a time; reconnects with its session."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.node: Node | None = None
        self.life = 0
        self.connection: Any = None
        self.session_id = 0
        self.password = bytes(16)
        self.xid = 0
        self.last_zxid = 0
        self.counter = 0
        self.asked: str | None = None
        self.acked: list[str] = []
        self.is_connected = False
        self.awaits_session = False
        self.answered_xid = 0
        self.asked_xid = 0
        self.read_must_find = False
        # Of the register: the question under way, what was acknowledged when it began, and the
        # newest zxid that was seen.
        self.value: bytes | None = None
        self.reads_register = False
        self.floor = 0
        self.seen = 0


class Ensemble:
    def __init__(
        self, seed: int, *, voters: int = 3, observers: int = 0, plant: str | None = None
    ) -> None:
        self.random = random.Random(seed)
        self.plant = plant
        self.now_ms = START_MS
        self.nodes = {n: Node(n, plant) for n in range(1, voters + observers + 1)}
        self.voters = frozenset(range(1, voters + 1))
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._stream_numbers = itertools.count()
        self._arrivals: dict[tuple[int, bool], int] = {}
        self.cut: set[frozenset[int]] = set()
        self.slow = 0  # the learner that its leader's bytes reach late
        self.leaders: dict[int, int] = {}
        self.contents: dict[int, bytes] = {}
        self.committed: dict[int, int] = {}
        self.clients = [SimClient(n) for n in range(3)]
        self.register = Register()
        self.is_chaotic = True
        self.elections = 0

    # The world

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), action))

    def run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()
        self.now_ms = end_ms

    def play(self) -> None:
        for node in self.nodes.values():
            self.start(node)
        for client in self.clients:
            self.at(self.random.randrange(500), partial(self.client_step, client))
        self.at(500, self.mishap)
        self.run_until(START_MS + CHAOS_MS)
        self.is_chaotic = False
        self.cut.clear()
        self.slow = 0
        for node in self.nodes.values():
            if node.member is None:
                self.start(node)
        self.run_until(self.now_ms + CALM_MS)
        self.check_end()

    def mishap(self) -> None:
        if not self.is_chaotic:
            return
        chance = self.random
        node = chance.choice(list(self.nodes.values()))
        kind = chance.choice(
            ("kill", "kill_leader", "cut", "isolate", "heal", "snapshot", "all", "slow")
        )
        if kind == "kill_leader":
            led = [n for n in self.nodes.values() if n.member is not None and n.member.leader]
            node = led[0] if led else node
        if kind in ("kill", "kill_leader"):
            self.kill(node, power=chance.random() < 0.5)
        elif kind == "all":
            for each in self.nodes.values():
                self.kill(each, power=True)
        elif kind == "cut":
            other = chance.choice(list(self.nodes))
            if other != node.number:
                self.cut.add(frozenset((node.number, other)))
        elif kind == "isolate":
            for other in self.nodes:
                if other != node.number:
                    self.cut.add(frozenset((node.number, other)))
        elif kind == "slow":
            self.slow = node.number
        elif kind == "heal":
            self.cut.clear()
            self.slow = 0
        elif kind == "snapshot" and node.member is not None and not node.is_flushing:
            machine = node.member.machine
            node.disk.snapshot(machine.tree, machine.sessions.timeouts_ms())
        self.break_streams()
        self.at(chance.randrange(100, 1500), self.mishap)

    def break_streams(self) -> None:
        """Streams over a cut link hang, and break after a while."""
        for node in self.nodes.values():
            for stream in list(node.streams.values()):
                if frozenset((stream.learner, stream.leader)) in self.cut:
                    delay_ms = self.random.choice((0, 200, 2000))
                    self.at(delay_ms, partial(self.break_stream, stream))

    def break_stream(self, stream: Stream) -> None:
        if self.nodes[stream.leader].streams.pop(stream, None) is not None:
            member = self.nodes[stream.leader].member
            if member is not None:
                member.learner_disconnected(stream)
                self.perform(self.nodes[stream.leader])
        learner = self.nodes[stream.learner]
        if learner.streams.get(LEADER_LINK) == stream:
            del learner.streams[LEADER_LINK]
            if learner.member is not None:
                learner.member.leader_disconnected("the stream broke", self.now_ms)
                self.perform(learner)

    # Members

    def start(self, node: Node) -> None:
        tree, sessions, recent = node.disk.load()
        table = MemberSessions(LIMITS.tick_ms, b"", self.now_ms, node.number)
        for session_id, timeout_ms in sessions.items():
            table.add(session_id, timeout_ms, self.now_ms)
        machine = EnsembleMachine(tree, table, node.number)
        spec = EnsembleSpec(node.number, self.voters, node.number not in self.voters, LIMITS)
        node.life += 1
        node.is_flushing = False
        node.timer_ms = None
        node.disk.waiting = []
        node.member = Member(spec, node.disk, machine, recent, self.now_ms)
        self.perform(node)

    def kill(self, node: Node, *, power: bool) -> None:
        if node.member is None:
            return
        node.member = None
        node.life += 1
        if not power or self.random.random() < 0.5:
            # A killed process: its system still has all writes; a power cut: some of them.
            count = (
                len(node.disk.waiting)
                if not power
                else self.random.randint(0, len(node.disk.waiting))
            )
            node.disk.flushed += node.disk.waiting[:count]
        node.disk.waiting = []
        for stream in list(node.streams.values()):
            self.at(self.random.randrange(50), partial(self.break_stream, stream))
        self.disconnect_clients(node)
        self.at(self.random.randrange(200, 3000), lambda: self.restart(node))

    def restart(self, node: Node) -> None:
        if node.member is None:
            self.start(node)

    def perform(self, node: Node) -> None:
        member = node.member
        if member is None:
            return
        effects = member.take_effects(self.now_ms)
        if effects.records:
            node.disk.waiting += effects.records
            if self.plant == "ack_before_fsync":
                zxid = member.machine.tree.last_zxid
                member.durable(zxid, self.now_ms)
                self.at(0, lambda: self.perform(node))
            if not node.is_flushing:
                self.flush(node)
        self.watch(node, member)
        for receiver, message in effects.notifications:
            self.notify(node, receiver, message)
        if effects.closes_clients:
            self.disconnect_clients(node)
        for link, piece in effects.pieces:
            self.send(node, node.streams.get(link), piece)
        if effects.connect_to is not None:
            self.connect(node, effects.connect_to, node.life)
        for connection, frame in effects.frames:
            asking = connection.token
            assert isinstance(asking, SimClient)
            if asking.connection is connection and asking.is_connected:
                if frame is None:
                    asking.is_connected = False
                else:
                    self.answer(asking, frame)
        self.set_timer(node)

    def disconnect_clients(self, node: Node) -> None:
        for client in self.clients:
            if client.node is node:
                client.is_connected = False

    def send(self, node: Node, stream: Stream | None, piece: Piece) -> None:
        if stream is None:
            return
        if piece is None:
            self.at(1, partial(self.break_stream, stream))
        else:
            data = piece if isinstance(piece, bytes) else b"".join(piece)
            self.transmit(stream, node.number == stream.learner, data)

    def set_timer(self, node: Node) -> None:
        assert node.member is not None
        deadline_ms = node.member.next_deadline_ms()
        if deadline_ms is None or (node.timer_ms is not None and node.timer_ms <= deadline_ms):
            return
        node.timer_ms = deadline_ms
        life = node.life
        self.at(max(1, deadline_ms - self.now_ms), lambda: self.wake(node, life, deadline_ms))

    def wake(self, node: Node, life: int, deadline_ms: int) -> None:
        if node.life != life or node.member is None or node.timer_ms != deadline_ms:
            return
        node.timer_ms = None
        node.member.tick(self.now_ms)
        self.perform(node)

    def flush(self, node: Node) -> None:
        member = node.member
        assert member is not None
        node.is_flushing = True
        count, zxid, life = len(node.disk.waiting), member.machine.tree.last_zxid, node.life
        delay_ms = self.random.choice((1, 2, 5, 5, 80, 300))
        self.at(delay_ms, lambda: self.flushed(node, life, count, zxid))

    def flushed(self, node: Node, life: int, count: int, zxid: int) -> None:
        if node.life != life or node.member is None:
            return
        node.disk.flushed += node.disk.waiting[:count]
        del node.disk.waiting[:count]
        node.is_flushing = False
        if self.plant != "ack_before_fsync" or not node.disk.waiting:
            node.member.durable(zxid, self.now_ms)
        if node.disk.waiting:
            self.flush(node)
        self.perform(node)

    # The network

    def is_cut(self, one: int, other: int) -> bool:
        return frozenset((one, other)) in self.cut

    def notify(self, node: Node, receiver: int, message: bytes) -> None:
        if self.is_chaotic and self.random.random() < 0.1:
            return
        self.at(
            self.random.choice((1, 1, 2, 10, 60)),
            lambda: self.notified(node.number, receiver, message),
        )

    def notified(self, sender: int, receiver: int, message: bytes) -> None:
        node = self.nodes[receiver]
        if node.member is not None and not self.is_cut(sender, receiver):
            node.member.notified(sender, message[4:], self.now_ms)
            self.perform(node)

    def connect(self, node: Node, leader: int, life: int) -> None:
        member = node.member
        if node.life != life or member is None or member.leader_id != leader or member.learner:
            return
        other = self.nodes[leader]
        if other.member is None or self.is_cut(node.number, leader):
            self.at(100, lambda: self.connect(node, leader, life))
            return
        old = node.streams.get(LEADER_LINK)
        if old is not None:
            self.break_stream(old)
        stream = Stream(next(self._stream_numbers), node.number, leader)
        node.streams[LEADER_LINK] = stream
        other.streams[stream] = stream
        other.member.learner_connected(stream, self.now_ms)
        member.leader_connected(self.now_ms)
        self.perform(other)
        self.perform(node)

    def transmit(self, stream: Stream, from_learner: bool, data: bytes) -> None:
        key = (stream.number, from_learner)
        delay_ms = self.random.choice((1, 1, 2, 4, 30))
        if stream.learner == self.slow and not from_learner:
            delay_ms += SLOW_MS
        arrival = max(self.now_ms + delay_ms, self._arrivals.get(key, 0))
        self._arrivals[key] = arrival
        self.at(arrival - self.now_ms, lambda: self.arrive(stream, from_learner, data))

    def arrive(self, stream: Stream, from_learner: bool, data: bytes) -> None:
        if self.is_cut(stream.learner, stream.leader):
            self.break_stream(stream)
            return
        node = self.nodes[stream.leader if from_learner else stream.learner]
        link = stream if from_learner else LEADER_LINK
        member = node.member
        if member is None or node.streams.get(link) != stream:
            return
        try:
            if from_learner:
                member.learner_bytes(stream, data, self.now_ms)
            else:
                member.leader_bytes(data, self.now_ms)
        except ProtocolError as error:
            raise Violation(f"node {node.number} rejects the bytes of a member: {error}") from error
        self.perform(node)

    # Clients

    def client_step(self, client: SimClient) -> None:
        if self.is_chaotic:
            self.at(self.random.randrange(10, 150), partial(self.client_step, client))
        if not client.is_connected:
            client.asked = client.value = None
            client.reads_register = False
            serving = [n for n in self.nodes.values() if n.member and n.member.is_serving]
            if not serving:
                return
            node = self.random.choice(serving)
            assert node.member is not None
            client.node, client.life, client.is_connected = node, node.life, True
            client.awaits_session, client.answered_xid = True, client.xid
            client.connection = node.member.machine.connected(client, "127.0.0.1")
            request = ConnectRequest(0, client.last_zxid, 1500, client.session_id, client.password)
            self.ask(client, jute.encode(request) + b"\0")
        elif client.awaits_session or client.asked is not None or not self.is_chaotic:
            return
        elif client.acked and (chance := self.random.random()) < WRITES_OF_REGISTER:
            self.write_register(client)
        elif client.acked and chance < WRITES_OF_REGISTER + READS_OF_REGISTER:
            self.read_register(client)
        else:
            client.counter += 1
            client.xid += 1
            is_first = client.counter == 1
            is_ephemeral = self.random.random() < 0.2 and not is_first
            path = REGISTER if is_first else f"/c{client.number}-{client.counter}"
            mode = CreateMode.EPHEMERAL if is_ephemeral else CreateMode.PERSISTENT
            body = jute.encode(CreateRequest(path, FIRST_VALUE, list(OPEN_ACL), mode))
            client.asked, client.asked_xid = path, client.xid
            # The read waits behind the write, and has to see it.
            client.xid += 1
            client.read_must_find = not is_ephemeral
            self.ask(client, self.header(client.xid - 1, Op.CREATE) + body)
            read = jute.encode(PathWatchRequest(path, False))
            self.ask(client, self.header(client.xid, Op.EXISTS) + read)

    def write_register(self, client: SimClient) -> None:
        client.xid += 1
        client.counter += 1
        client.asked, client.asked_xid = REGISTER, client.xid
        client.value = f"{client.number}-{client.counter}".encode()
        client.floor = self.register.newest()
        self.register.asked.add(client.value)
        body = jute.encode(SetDataRequest(REGISTER, client.value, -1))
        self.ask(client, self.header(client.xid, Op.SET_DATA) + body)

    def read_register(self, client: SimClient) -> None:
        client.xid += 2
        client.asked, client.asked_xid = REGISTER, client.xid
        client.reads_register = True
        client.floor = self.register.newest()
        self.ask(client, self.header(client.xid - 1, Op.SYNC) + jute.encode(PathRequest(REGISTER)))
        node = client.node
        if self.plant == "sync_without_leader" and node is not None and node.member is not None:
            node.member.machine.synced(self.now_ms)
        body = jute.encode(PathWatchRequest(REGISTER, False))
        self.ask(client, self.header(client.xid, Op.GET_DATA) + body)

    def read_at_once(self, client: SimClient) -> None:
        """Read what another client has just written, if this one is at leisure."""
        is_busy = client.awaits_session or client.asked is not None
        if client.is_connected and not is_busy and self.is_chaotic:
            self.read_register(client)

    def answer_register(self, client: SimClient, data: memoryview) -> None:
        value, client.value = client.value, None
        is_read, client.reads_register = client.reads_register, False
        if value is not None:
            stat = jute.decode(StatResponse, data).stat
            self.register.wrote(client.number, client.floor, value, stat)
            for other in self.clients:
                self.at(0, partial(self.read_at_once, other))
        elif is_read:
            read = jute.decode(GetDataResponse, data)
            assert client.node is not None
            assert client.node.member is not None
            found = Found(read.stat, client.node.member.epochs.current)
            self.register.read(client.number, client.floor, client.seen, read.data or b"", found)
            stat = read.stat
        client.seen = max(client.seen, stat.mzxid)

    @staticmethod
    def header(xid: int, op: int) -> bytes:
        return xid.to_bytes(4, "big", signed=True) + int(op).to_bytes(4, "big", signed=True)

    def ask(self, client: SimClient, frame: bytes) -> None:
        node = client.node
        if node is None or node.member is None or node.life != client.life:
            client.is_connected = False
            return
        try:
            node.member.client_frame(client.connection, frame, self.now_ms)
        except ProtocolError:
            node.member.machine.disconnected(client.connection)
            client.is_connected = False
        self.perform(node)

    def answer(self, client: SimClient, frame: bytes) -> None:
        data = memoryview(frame)[4:]
        if client.awaits_session:
            client.awaits_session = False
            response, _ = jute.decode_from(jute.ConnectResponse, data, 0)
            client.session_id, client.password = response.session_id, response.password
            if response.session_id == 0:
                client.is_connected = False
            return
        xid, zxid, error = _REPLY.unpack_from(data)
        client.last_zxid = max(client.last_zxid, zxid)
        if xid != client.answered_xid + 1:
            raise Violation(f"client {client.number} has answer {xid} after {client.answered_xid}")
        client.answered_xid = xid
        if xid == client.asked_xid and (client.value is not None or client.reads_register):
            if error:
                client.value, client.reads_register = None, False
            else:
                self.answer_register(client, data[16:])
        elif xid == client.asked_xid:
            if not error and jute.decode(PathResponse, data[16:]).path == client.asked:
                client.acked.append(client.asked or "")
        elif error and client.read_must_find:
            raise Violation(f"client {client.number} does not find the node that it made")
        if xid == client.xid:
            client.asked = None

    # Checks

    def watch(self, node: Node, member: Member) -> None:
        leader = member.leader
        if leader is not None and leader.is_broadcasting:
            known = self.leaders.setdefault(leader.epoch, node.number)
            if known != node.number:
                raise Violation(f"epoch {leader.epoch} has leaders {known} and {node.number}")
            if self.plant == "commit_without_quorum":
                leader._voters = frozenset({node.number})
                Leader._check_quorum = lambda *_: None  # type: ignore[method-assign]
        if not member.is_serving:
            return
        for zxid, data in member.history.behind(self.committed.get(node.number, 0)):
            if zxid > member.committed_zxid:
                break
            self.committed[node.number] = zxid
            known_data = self.contents.setdefault(zxid, data)
            if known_data != data:
                raise Violation(f"{zxid:#x} has two contents, one on {node.number}")

    def check_end(self) -> None:
        trees = {}
        for node in self.nodes.values():
            member = node.member
            if member is None or not member.is_serving:
                states = {n.number: n.member and n.member.why_looking for n in self.nodes.values()}
                raise Violation(f"member {node.number} does not serve: {states}")
            tree = member.machine.tree
            trees[node.number] = {p: (n.data, n.stat(), n.acl) for p, n in tree.nodes.items()}
            stray = tree.ephemerals.keys() - member.machine.sessions.sessions.keys()
            if stray:
                raise Violation(f"ephemeral nodes of ended sessions {stray} on {node.number}")
            loaded, _, _ = node.disk.load()
            if {p: n.stat() for p, n in loaded.nodes.items()} != {
                p: n.stat() for p, n in tree.nodes.items()
            }:
                raise Violation(f"member {node.number} has another tree on its disk")
        first = next(iter(trees.values()))
        for number, tree_of in trees.items():
            if tree_of != first:
                other = first.keys() ^ tree_of.keys()
                raise Violation(f"member {number} has another tree: {sorted(other)[:5]}")
        self.register.check_versions()
        made = set(first)
        for client in self.clients:
            for path in client.acked:
                if path not in made:
                    self.check_ephemeral(client, path)

    def check_ephemeral(self, client: SimClient, path: str) -> None:
        """It may be gone with its session: then two transactions name it."""
        named = len(path).to_bytes(4, "big") + path.encode()
        if sum(named in data for data in self.contents.values()) < 2:
            raise Violation(f"{path} was acknowledged to client {client.number}, and is lost")


def run_seed(seed: int, plant: str | None = None) -> Ensemble:
    chance = random.Random(seed * 7919)
    check_quorum = Leader._check_quorum
    try:
        ensemble = Ensemble(
            seed,
            voters=chance.choice((3, 3, 5)),
            observers=chance.choice((0, 0, 1)),
            plant=plant,
        )
        ensemble.play()
    finally:
        Leader._check_quorum = check_quorum  # type: ignore[method-assign]
    return ensemble


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--plant", choices=PLANTS)
    options = parser.parse_args()
    failures = 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            ensemble = run_seed(seed, options.plant)
        except Exception as error:
            failures += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
            if not isinstance(error, Violation):
                raise
        else:
            acked = sum(len(client.acked) for client in ensemble.clients)
            register = ensemble.register
            print(
                f"seed {seed}: {len(ensemble.leaders)} leaders, {acked} nodes acknowledged, "
                f"register: {len(register.acked)} writes acknowledged, {register.reads} reads",
                flush=True,
            )
    print(f"{failures} of {options.seeds} seeds broke a promise")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
