"""Statistics of one client's connection: counts, its last operation, its latencies.

Mirrors the statistics of `ServerCnxn` and `ServerStats` (packets, latency, size of responses). The
runtime reports every frame in and out; replies leave in the order of their requests, so a reply
belongs to the oldest waiting request.

Leaves out the figures of a JVM, and a reset (crst, srst): any client could wipe another's numbers.
"""

from collections import deque
from struct import Struct
from typing import NamedTuple

from ..protocol.zookeeper.constants import NOTIFICATION_XID, Op

NO_OPERATION = "NA"
# The names in FinalRequestProcessor; operations missing here have no name there either.
OPERATION_NAMES: dict[int, str] = {
    Op.PING: "PING",
    Op.CREATE_SESSION: "SESS",
    Op.MULTI: "MULT",
    Op.MULTI_READ: "MLTR",
    Op.CREATE: "CREA",
    Op.CREATE2: "CREA",
    Op.CREATE_CONTAINER: "CREA",
    Op.CREATE_TTL: "CREA",
    Op.DELETE: "DELE",
    Op.SET_DATA: "SETD",
    Op.RECONFIG: "RECO",
    Op.SET_ACL: "SETA",
    Op.CLOSE_SESSION: "CLOS",
    Op.SYNC: "SYNC",
    Op.CHECK: "CHEC",
    Op.EXISTS: "EXIS",
    Op.GET_DATA: "GETD",
    Op.SET_WATCHES: "SETW",
    Op.SET_WATCHES2: "STW2",
    Op.ADD_WATCH: "ADDW",
    Op.GET_ACL: "GETA",
    Op.GET_CHILDREN: "GETC",
    Op.GET_CHILDREN2: "GETC",
    Op.GET_ALL_CHILDREN_NUMBER: "GETACN",
    Op.CHECK_WATCHES: "CHKW",
    Op.REMOVE_WATCHES: "REMW",
}
_REQUEST = Struct(">ii")  # xid, operation
_REPLY = Struct(">iiq")  # size, xid, zxid
_SIZE_BYTES = 4


class Latency:
    """Lowest, mean and highest of the recorded latencies, in milliseconds."""

    __slots__ = ("_count", "_low_ms", "_sum_ms", "high_ms")

    def __init__(self) -> None:
        self._count = 0
        self._sum_ms = 0
        self._low_ms = 0
        self.high_ms = 0

    def record(self, elapsed_ms: int) -> None:
        self._low_ms = min(self._low_ms, elapsed_ms) if self._count else elapsed_ms
        self._count += 1
        self._sum_ms += elapsed_ms
        self.high_ms = max(self.high_ms, elapsed_ms)

    @property
    def low_ms(self) -> int:
        return self._low_ms

    @property
    def mean_ms(self) -> float:
        return self._sum_ms / self._count if self._count else 0.0


class _Waiting(NamedTuple):
    xid: int
    operation: int
    since_ms: int


class ServerStats:
    """The sums over all connections, those that have ended too."""

    __slots__ = ("latency", "received", "response_bytes", "sent")

    def __init__(self) -> None:
        self.received = 0
        self.sent = 0
        self.latency = Latency()
        self.response_bytes: tuple[int, int, int] | None = None  # last, smallest, largest

    def responded(self, size: int) -> None:
        _, low, high = self.response_bytes or (size, size, size)
        self.response_bytes = (size, min(low, size), max(high, size))


class ConnectionStats:
    __slots__ = (
        "_server",
        "_waiting",
        "established_ms",
        "last_cxid",
        "last_latency_ms",
        "last_operation",
        "last_response_ms",
        "last_zxid",
        "latency",
        "received",
        "sent",
    )

    def __init__(self, server: ServerStats, now_ms: int) -> None:
        self._server = server
        self._waiting: deque[_Waiting] = deque()
        self.established_ms = now_ms
        self.received = 0
        self.sent = 0
        self.latency = Latency()
        self.last_operation = NO_OPERATION
        self.last_cxid = -1
        self.last_zxid = -1
        self.last_response_ms = 0
        self.last_latency_ms = 0

    @property
    def queued(self) -> int:
        """Requests that have no reply yet."""
        return len(self._waiting)

    def count_word(self) -> None:
        """A four-letter word: a packet of its connection; its answer counts for the server."""
        self.received += 1
        self._server.received += 1
        self._server.sent += 1

    def count_request(self, frame: bytes, now_ms: int, *, is_connect: bool) -> None:
        """A whole request that the machine has taken."""
        self.received += 1
        self._server.received += 1
        xid, operation = (0, Op.CREATE_SESSION) if is_connect else _REQUEST.unpack_from(frame)
        self._waiting.append(_Waiting(xid, operation, now_ms))

    def count_reply(self, frame: bytes, now_ms: int, last_zxid: int) -> None:
        """A reply or a notification leaves, with its size in front."""
        self.sent += 1
        self._server.sent += 1
        self._server.responded(len(frame) - _SIZE_BYTES)
        _, xid, zxid = _REPLY.unpack_from(frame)
        if not self._waiting or (xid == NOTIFICATION_XID and self._waiting[0].xid != xid):
            return
        request = self._waiting.popleft()
        if request.operation == Op.AUTH:
            return  # answered before the processors that count
        is_connect = request.operation == Op.CREATE_SESSION
        self.last_zxid = last_zxid if is_connect else zxid
        if request.xid >= 0:
            self.last_cxid = request.xid
        self.last_operation = OPERATION_NAMES.get(request.operation, NO_OPERATION)
        self.last_response_ms = now_ms
        self.last_latency_ms = now_ms - request.since_ms
        self.latency.record(self.last_latency_ms)
        self._server.latency.record(self.last_latency_ms)
