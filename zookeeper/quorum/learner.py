"""A learner: a follower or observer of one leader.

Mirrors `Learner`, `Follower` and `Observer` of 3.9: it says who it is, accepts the leader's epoch,
comes to the leader's state (DIFF, TRUNC or SNAP, then transactions), acknowledges NEWLEADER when
all of it is on disk, serves its clients after UPTODATE, and logs and acknowledges proposals.

Invariants:
- the accepted epoch is saved before ACKEPOCH, the current epoch before the acknowledgement of
  NEWLEADER, and neither ever falls;
- NEWLEADER and proposals are acknowledged only when they and all before them are on disk;
- nothing is committed that was not logged.

- files that cannot be cut where a leader asks for it stay as they are until a snapshot of it takes
  their place. The learner says so (`wish`), and the next one, at the same leader, tells it of no
  log at all. That counts for nothing: it has accepted this epoch before, so that the leader lets no
  vote depend on what it says, and asked for a cut only after a quorum had accepted it. Apache
  ZooKeeper exits there.

How it comes to such files: a leader sends a snapshot with the end of its own log, which no quorum
has yet, and is gone before one has. The learner has nothing before that end, and the next leader
has nothing of it.

The learner ends (`ended` has the reason) when the leader is silent for initLimit, later syncLimit.
"""

from enum import IntEnum
from typing import NamedTuple, Protocol

from ...protocol.errors import ProtocolError
from ...protocol.zookeeper import jute
from ..transactions import Txn
from ..tree_bytes import ReadTree, TreeReader
from ..txn_bytes import decode_txn
from .leader import ALREADY_ACCEPTED, Limits
from .packets import (
    PROTOCOL_VERSION,
    ForwardedRequest,
    LearnerInfo,
    PacketReader,
    PacketType,
    QuorumPacket,
    encode_packet,
    epoch_data,
    epoch_of,
    first_zxid,
    forwarded_packet,
    read_validity,
    revalidation,
    touches_packet,
)


class Epochs(NamedTuple):
    accepted: int
    current: int


class SnapshotWish(NamedTuple):
    """Files that cannot be cut: the leader of this epoch is to send a snapshot."""

    epoch: int
    cut_zxid: int


class LearnerHost(Protocol):
    """The member around the learner."""

    @property
    def epochs(self) -> Epochs: ...
    @property
    def last_zxid(self) -> int: ...
    def save_accepted_epoch(self, epoch: int) -> None: ...
    def save_current_epoch(self, epoch: int) -> None: ...
    def truncate(self, zxid: int) -> bool:
        """Drop the transactions behind `zxid`; False if that cannot be done."""

    def install(self, snapshot: ReadTree) -> None:
        """Make a snapshot the whole state, on disk, too."""

    def log(self, txn: Txn, data: bytes, *, may_be_there: bool, now_ms: int) -> None: ...
    def committed(self, zxid: int) -> None: ...
    def joined(self, epoch: int, now_ms: int) -> None:
        """The leader has a quorum: serve clients."""

    def take_touches(self) -> dict[int, int]: ...
    def revalidated(self, session_id: int, is_valid: bool, now_ms: int) -> None: ...
    def synced(self, now_ms: int) -> None: ...


class LearnerStage(IntEnum):
    INTRODUCING = 0
    CHOOSING = 1  # DIFF, TRUNC or SNAP comes
    SYNCING = 2
    FLUSHING = 3  # NEWLEADER has come, its acknowledgement waits for the disk
    ACKNOWLEDGED = 4
    SERVING = 5


class LearnerStream:
    """Packets and snapshots out of the bytes that a leader sends."""

    __slots__ = ("_packets", "_snapshot")

    def __init__(self) -> None:
        self._packets = PacketReader()
        self._snapshot: TreeReader | None = None

    def feed(self, data: bytes) -> list[QuorumPacket | ReadTree]:
        """Raises ProtocolError."""
        found: list[QuorumPacket | ReadTree] = []
        if self._snapshot is None:
            self._packets.feed(data)
        while True:
            if self._snapshot is not None:
                self._snapshot.feed(data)
                if self._snapshot.received is None:
                    return found
                found.append(self._snapshot.received)
                self._packets.feed(self._snapshot.take_rest())
                self._snapshot = None
            packet = self._packets.next()
            if packet is None:
                return found
            found.append(packet)
            if packet.type == PacketType.SNAP:
                self._snapshot = TreeReader(packet.zxid, signed=True)
                data = self._packets.take_rest()


class Learner:
    __slots__ = (
        "_deadline_ms",
        "_durable_zxid",
        "_fuzzy_until_joined",
        "_host",
        "_is_observer",
        "_limits",
        "_logged_zxid",
        "_my_id",
        "_outbox",
        "_stage",
        "_told_wish",
        "_unacked",
        "ended",
        "epoch",
        "wish",
    )

    def __init__(
        self,
        host: LearnerHost,
        my_id: int,
        *,
        is_observer: bool,
        limits: Limits,
        now_ms: int,
        wish: SnapshotWish | None = None,
    ) -> None:
        """`wish`: that of the learner before."""
        self._host = host
        self._my_id = my_id
        self._is_observer = is_observer
        self._limits = limits
        self._stage = LearnerStage.INTRODUCING
        self._deadline_ms = now_ms + limits.init_ms
        self._outbox: list[bytes] = []
        self._logged_zxid = self._durable_zxid = host.last_zxid
        self._unacked: list[int] = []
        self._fuzzy_until_joined = False
        self._told_wish = wish
        self.wish: SnapshotWish | None = None
        self.epoch = 0
        self.ended: str | None = None
        info = LearnerInfo(my_id, PROTOCOL_VERSION, 0)
        kind = PacketType.OBSERVERINFO if is_observer else PacketType.FOLLOWERINFO
        self._send(QuorumPacket(kind, first_zxid(host.epochs.accepted), jute.encode(info)))

    @property
    def is_serving(self) -> bool:
        return self._stage is LearnerStage.SERVING and self.ended is None

    def take_outbox(self) -> list[bytes]:
        outbox, self._outbox = self._outbox, []
        return outbox

    def next_deadline_ms(self) -> int:
        return self._deadline_ms

    def tick(self, now_ms: int) -> None:
        if now_ms >= self._deadline_ms and self.ended is None:
            self.ended = "the leader is silent"

    # From the leader

    def receive(self, packet: QuorumPacket | ReadTree, now_ms: int) -> None:
        """Raises ProtocolError: the connection is to be closed."""
        if self.ended is not None:
            return
        is_synced = self._stage >= LearnerStage.ACKNOWLEDGED
        limit_ms = self._limits.sync_ms if is_synced else self._limits.init_ms
        self._deadline_ms = now_ms + limit_ms
        if isinstance(packet, ReadTree):
            self._host.install(packet)
            self._begin_sync()
            self._fuzzy_until_joined = True
        elif self._stage is LearnerStage.INTRODUCING:
            self._accept_epoch(packet)
        elif self._stage is LearnerStage.CHOOSING:
            self._choose(packet)
        else:
            self._take(packet, now_ms)

    def durable(self, zxid: int) -> None:
        """Our disk has all up to `zxid`."""
        self._durable_zxid = zxid
        if self._stage is LearnerStage.FLUSHING and self._durable_zxid >= self._logged_zxid:
            self._host.save_current_epoch(self.epoch)
            self._stage = LearnerStage.ACKNOWLEDGED
            self._send(QuorumPacket(PacketType.ACK, first_zxid(self.epoch)))
        self._acknowledge()

    def forward(self, request: ForwardedRequest) -> None:
        self._send(forwarded_packet(request))

    def revalidate(self, session_id: int, timeout_ms: int) -> None:
        self._send(revalidation(session_id, timeout_ms))

    def _accept_epoch(self, packet: QuorumPacket) -> None:
        if packet.type != PacketType.LEADERINFO:
            raise ProtocolError(f"a leader begins with packet {packet.type}")
        epoch = epoch_of(packet.zxid)
        accepted, current = self._host.epochs
        if epoch < accepted:
            self.ended = f"the leader is of epoch {epoch}, we have accepted {accepted}"
            return
        answer = current
        if epoch > accepted:
            self._host.save_accepted_epoch(epoch)
        else:
            answer = ALREADY_ACCEPTED
        if self._told_wish is not None and self._told_wish.epoch != epoch:
            self._told_wish = None
        self.epoch = epoch
        self._stage = LearnerStage.CHOOSING
        zxid = self._host.last_zxid if self._told_wish is None else 0
        self._send(QuorumPacket(PacketType.ACKEPOCH, zxid, epoch_data(answer)))

    def _choose(self, packet: QuorumPacket) -> None:
        if packet.type == PacketType.SNAP:
            return  # the snapshot follows
        if self._told_wish is not None:
            self.ended = f"its leader was asked for a snapshot, and sends packet {packet.type}"
            return
        if packet.type == PacketType.TRUNC:
            if not self._host.truncate(packet.zxid):
                self.wish = SnapshotWish(self.epoch, packet.zxid)
                self.ended = f"the log cannot be cut at {packet.zxid:#x}"
                return
        elif packet.type != PacketType.DIFF:
            raise ProtocolError(f"packet {packet.type} instead of DIFF, TRUNC or SNAP")
        self._begin_sync()

    def _begin_sync(self) -> None:
        self._stage = LearnerStage.SYNCING
        self._logged_zxid = self._durable_zxid = self._host.last_zxid
        self._unacked.clear()
        self._host.committed(self._logged_zxid)

    def _take(self, packet: QuorumPacket, now_ms: int) -> None:
        kind = packet.type
        if kind in (PacketType.PROPOSAL, PacketType.INFORM):
            self._log(packet, now_ms)
            if kind == PacketType.INFORM:
                self._host.committed(packet.zxid)
        elif kind == PacketType.COMMIT:
            if packet.zxid > self._logged_zxid:
                raise ProtocolError(f"COMMIT of {packet.zxid:#x}, which was not proposed")
            if self._stage < LearnerStage.ACKNOWLEDGED and packet.zxid in self._unacked:
                self._unacked.remove(packet.zxid)
            self._host.committed(packet.zxid)
        elif kind == PacketType.PING:
            if self._stage is not LearnerStage.SERVING:
                return  # a leader waits for nothing but the acknowledgement of NEWLEADER
            self._send(touches_packet(packet.zxid, self._host.take_touches()))
        elif kind == PacketType.NEWLEADER:
            if packet.zxid != first_zxid(self.epoch):
                raise ProtocolError(f"NEWLEADER {packet.zxid:#x} in epoch {self.epoch}")
            self._stage = LearnerStage.FLUSHING
            self.durable(self._durable_zxid)
        elif kind == PacketType.UPTODATE:
            self._join(now_ms)
        elif kind == PacketType.REVALIDATE:
            self._host.revalidated(*read_validity(packet), now_ms)
        elif kind == PacketType.SYNC:
            self._host.synced(now_ms)
        else:
            raise ProtocolError(f"a leader sends packet {kind}")

    def _log(self, packet: QuorumPacket, now_ms: int) -> None:
        data = packet.data or b""
        txn = decode_txn(data)
        if txn.header.zxid <= self._logged_zxid:
            if self._fuzzy_until_joined:
                return  # the snapshot of a JVM's leader has it
            raise ProtocolError(f"{txn.header.zxid:#x} is proposed behind {self._logged_zxid:#x}")
        self._logged_zxid = txn.header.zxid
        self._host.log(txn, data, may_be_there=self._fuzzy_until_joined, now_ms=now_ms)
        if packet.type == PacketType.PROPOSAL and not self._is_observer:
            self._unacked.append(txn.header.zxid)

    def _join(self, now_ms: int) -> None:
        if self._stage is not LearnerStage.ACKNOWLEDGED:
            raise ProtocolError(f"UPTODATE at {self._stage.name}")
        self._stage = LearnerStage.SERVING
        self._fuzzy_until_joined = False
        self._send(QuorumPacket(PacketType.ACK, first_zxid(self.epoch)))
        self._host.joined(self.epoch, now_ms)
        self._deadline_ms = now_ms + self._limits.sync_ms

    def _acknowledge(self) -> None:
        """Acknowledge each logged proposal, one by one, as a JVM's leader counts them."""
        if self._stage < LearnerStage.ACKNOWLEDGED:
            return
        count = 0
        while count < len(self._unacked) and self._unacked[count] <= self._durable_zxid:
            self._send(QuorumPacket(PacketType.ACK, self._unacked[count]))
            count += 1
        del self._unacked[:count]

    def _send(self, packet: QuorumPacket) -> None:
        self._outbox.append(encode_packet(packet))
