"""The clients of a simulated ensemble.

Each creates nodes with numbers, one after the other, reads each behind the create, and notes what
was acknowledged. All of them write one register, too, and read it behind a sync. Checked here: a
client's answers come in order, and a read behind a write sees it. `ensemble_register` checks the
register. With the plant `sync_without_leader` a sync is answered at once.
"""

from functools import partial
from struct import Struct
from typing import Any

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
from tests.simulation.ensemble_register import FIRST_VALUE, Found, Register, Violation
from tests.simulation.ensemble_world import Node, World

COUNT = 3
REGISTER = "/register"
WRITES_OF_REGISTER, READS_OF_REGISTER = 0.25, 0.25

_REPLY = Struct(">iqi")  # xid, zxid, error


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


class Clients:
    def __init__(self, world: World) -> None:
        self._world = world
        self.all = [SimClient(n) for n in range(COUNT)]
        self.register = Register()

    def start(self) -> None:
        for client in self.all:
            self._world.at(self._world.random.randrange(500), partial(self.step, client))

    def disconnect(self, node: Node) -> None:
        for client in self.all:
            if client.node is node:
                client.is_connected = False

    def step(self, client: SimClient) -> None:
        if self._world.is_chaotic:
            self._world.at(self._world.random.randrange(10, 150), partial(self.step, client))
        if not client.is_connected:
            client.asked = client.value = None
            client.reads_register = False
            serving = [n for n in self._world.nodes.values() if n.member and n.member.is_serving]
            if not serving:
                return
            node = self._world.random.choice(serving)
            assert node.member is not None
            client.node, client.life, client.is_connected = node, node.life, True
            client.awaits_session, client.answered_xid = True, client.xid
            client.connection = node.member.machine.connected(client, "127.0.0.1")
            request = ConnectRequest(0, client.last_zxid, 1500, client.session_id, client.password)
            self.ask(client, jute.encode(request) + b"\0")
        elif client.awaits_session or client.asked is not None or not self._world.is_chaotic:
            return
        elif client.acked and (chance := self._world.random.random()) < WRITES_OF_REGISTER:
            self.write_register(client)
        elif client.acked and chance < WRITES_OF_REGISTER + READS_OF_REGISTER:
            self.read_register(client)
        else:
            client.counter += 1
            client.xid += 1
            is_first = client.counter == 1
            is_ephemeral = self._world.random.random() < 0.2 and not is_first
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
        if (
            self._world.plant == "sync_without_leader"
            and node is not None
            and node.member is not None
        ):
            node.member.machine.synced(self._world.now_ms)
        body = jute.encode(PathWatchRequest(REGISTER, False))
        self.ask(client, self.header(client.xid, Op.GET_DATA) + body)

    def read_at_once(self, client: SimClient) -> None:
        """Read what another client has just written, if this one is at leisure."""
        is_busy = client.awaits_session or client.asked is not None
        if client.is_connected and not is_busy and self._world.is_chaotic:
            self.read_register(client)

    def answer_register(self, client: SimClient, data: memoryview) -> None:
        value, client.value = client.value, None
        is_read, client.reads_register = client.reads_register, False
        if value is not None:
            stat = jute.decode(StatResponse, data).stat
            self.register.wrote(client.number, client.floor, value, stat)
            for other in self.all:
                self._world.at(0, partial(self.read_at_once, other))
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
            node.member.client_frame(client.connection, frame, self._world.now_ms)
        except ProtocolError:
            node.member.machine.disconnected(client.connection)
            client.is_connected = False
        self._world.perform(node)

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
