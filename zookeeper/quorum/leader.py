"""A leader: it finds its epoch, brings its learners to its state, and has transactions accepted.

Mirrors `Leader` and `LearnerHandler` of 3.9 (ZAB 1.0):

    DISCOVERY   a quorum says who it is (FOLLOWERINFO): the epoch is above all that it accepted;
                LEADERINFO tells it
    ACCEPTING   a quorum accepts the epoch (ACKEPOCH); nobody in it has a newer log, or we give up
    SYNCING     each learner gets what it lacks, then NEWLEADER; a quorum has it on disk (ACK)
    BROADCAST   UPTODATE; from now on transactions: PROPOSAL, ACK by a quorum, COMMIT

Invariants:
- an epoch is saved before any member gets it, and a quorum has accepted it before a transaction
  has it;
- a transaction is committed only if a quorum of voters has it on its disk, and all before it;
- an observer's acknowledgement counts for nothing;
- a snapshot leaves only when all of it is committed: what it has cannot be truncated.

The leader ends (`ended` has the reason) when a phase takes longer than initLimit, or when a quorum
has been silent for syncLimit.

Leaves out: reconfiguration, observer masters, SNAP throttling, learners before ZAB 1.0.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple, Protocol

from ...protocol.errors import ProtocolError
from ...protocol.invariants import BrokenInvariant
from ..snapshot import Capture
from ..tree_bytes import encode_tree
from .history import History
from .packets import (
    PROTOCOL_VERSION,
    ForwardedRequest,
    LearnerInfo,
    PacketType,
    QuorumPacket,
    encode_packet,
    epoch_data,
    epoch_of,
    first_zxid,
    read_epoch_data,
    read_forwarded,
    read_learner_info,
    read_revalidation,
    read_touches,
    validity,
)

ALREADY_ACCEPTED = -1  # in ACKEPOCH: this member has accepted the epoch before


class Limits(NamedTuple):
    tick_ms: int
    init_limit: int
    sync_limit: int

    @property
    def init_ms(self) -> int:
        return self.tick_ms * self.init_limit

    @property
    def sync_ms(self) -> int:
        return self.tick_ms * self.sync_limit


class LeaderPhase(IntEnum):
    DISCOVERY = 0
    ACCEPTING = 1
    SYNCING = 2
    BROADCAST = 3


class LearnerStage(IntEnum):
    CONNECTED = 0
    INTRODUCED = 1
    INFORMED = 2  # it has LEADERINFO
    ACCEPTED = 3  # it has sent ACKEPOCH
    SYNCING = 4  # it has NEWLEADER: from here on it gets proposals
    SYNCED = 5  # it has acknowledged NEWLEADER
    SERVING = 6  # it has UPTODATE


class LeaderHost(Protocol):
    """The member around the leader."""

    def save_accepted_epoch(self, epoch: int) -> None: ...
    def save_current_epoch(self, epoch: int) -> None: ...
    def established(self, epoch: int, now_ms: int) -> None:
        """A quorum is in sync: the members serve their clients."""

    def committed(self, zxid: int) -> None: ...
    def capture(self) -> Capture: ...
    def forwarded(self, learner_id: int, request: ForwardedRequest, now_ms: int) -> None: ...
    def touch(self, session_id: int, timeout_ms: int, now_ms: int) -> None: ...
    def revalidate(
        self, session_id: int, timeout_ms: int, learner_id: int, now_ms: int
    ) -> bool: ...


Piece = bytes | Iterator[bytes] | None
"""Bytes to send, those of a snapshot piece by piece, or None: close the connection."""


class _Learner:
    __slots__ = (
        "acked_zxid",
        "current_epoch",
        "heard_ms",
        "held",
        "held_for_zxid",
        "info",
        "is_observer",
        "last_zxid",
        "link",
        "stage",
        "waits_since_ms",
    )

    def __init__(self, link: object, now_ms: int) -> None:
        self.link = link
        self.stage = LearnerStage.CONNECTED
        self.info = LearnerInfo(-1, 0, 0)
        self.is_observer = False
        self.current_epoch = ALREADY_ACCEPTED
        self.last_zxid = 0
        self.heard_ms = now_ms
        # All transactions of this epoch up to this one are on its disk.
        self.acked_zxid = 0
        # When it got the oldest proposal that it has not acknowledged; None: it has all.
        self.waits_since_ms: int | None = None
        # A snapshot and all behind it wait here until the snapshot's last transaction is committed.
        self.held: list[Piece] = []
        self.held_for_zxid: int | None = None


class LearnerView(NamedTuple):
    """A learner as the status of the leader shows it."""

    server_id: int
    is_observer: bool
    stage: LearnerStage
    acked_zxid: int


class Leader:
    __slots__ = (
        "_accepted",
        "_connecting",
        "_current_epoch",
        "_deadline_ms",
        "_durable_zxid",
        "_history",
        "_host",
        "_learners",
        "_limits",
        "_my_id",
        "_next_ping_ms",
        "_next_quorum_check_ms",
        "_outbox",
        "_start_zxid",
        "_syncs",
        "_voters",
        "committed_zxid",
        "ended",
        "epoch",
        "phase",
    )

    def __init__(
        self,
        host: LeaderHost,
        my_id: int,
        voters: frozenset[int],
        limits: Limits,
        history: History,
        accepted_epoch: int,
        current_epoch: int,
        now_ms: int,
    ) -> None:
        self._host = host
        self._my_id = my_id
        self._voters = voters
        self._limits = limits
        self._history = history
        self._current_epoch = current_epoch
        self._start_zxid = history.last_zxid
        self._durable_zxid = history.last_zxid
        self.committed_zxid = history.last_zxid
        self.epoch = accepted_epoch + 1
        self.phase = LeaderPhase.DISCOVERY
        self.ended: str | None = None
        self._learners: dict[object, _Learner] = {}
        self._connecting = {my_id}
        self._accepted: set[int] = set()
        self._syncs: list[tuple[int, _Learner]] = []
        self._outbox: list[tuple[object, Piece]] = []
        self._deadline_ms = now_ms + limits.init_ms
        self._next_ping_ms = now_ms + limits.tick_ms // 2
        self._next_quorum_check_ms = now_ms + limits.tick_ms

    @property
    def is_broadcasting(self) -> bool:
        return self.phase is LeaderPhase.BROADCAST and self.ended is None

    @property
    def learners(self) -> list[LearnerView]:
        return [
            LearnerView(it.info.server_id, it.is_observer, it.stage, it.acked_zxid)
            for it in self._learners.values()
            if it.stage > LearnerStage.CONNECTED
        ]

    def take_outbox(self) -> list[tuple[object, Piece]]:
        outbox, self._outbox = self._outbox, []
        return outbox

    # Calls of the member

    def begin(self, now_ms: int) -> None:
        """Lead; a member that is alone has its quorum at once."""
        self._discover(now_ms)

    def connected(self, link: object, now_ms: int) -> None:
        self._learners[link] = _Learner(link, now_ms)

    def disconnected(self, link: object) -> None:
        self._learners.pop(link, None)

    def receive(self, link: object, packet: QuorumPacket, now_ms: int) -> None:
        """Raises ProtocolError: the connection is to be closed."""
        learner = self._learners.get(link)
        if learner is None or self.ended is not None:
            return
        learner.heard_ms = now_ms
        stage = learner.stage
        if stage is LearnerStage.CONNECTED:
            self._introduced(learner, packet, now_ms)
        elif stage is LearnerStage.INFORMED and packet.type == PacketType.ACKEPOCH:
            self._epoch_accepted(learner, packet, now_ms)
        elif stage is LearnerStage.SYNCING and packet.type == PacketType.ACK:
            self._new_leader_acked(learner, packet, now_ms)
        elif stage >= LearnerStage.SYNCED:
            self._serve(learner, packet, now_ms)
        else:
            raise ProtocolError(f"a learner at {stage.name} sends packet {packet.type}")

    def propose(self, zxid: int, data: bytes, now_ms: int) -> None:
        """A transaction that the log has, but the disk perhaps not yet."""
        if not self.is_broadcasting or epoch_of(zxid) != self.epoch:
            raise BrokenInvariant(f"{zxid:#x} is proposed in epoch {self.epoch}")
        packet = encode_packet(QuorumPacket(PacketType.PROPOSAL, zxid, data))
        for learner in self._learners.values():
            if learner.stage >= LearnerStage.SYNCING and not learner.is_observer:
                self._send_bytes(learner, packet)
                if learner.waits_since_ms is None:
                    learner.waits_since_ms = now_ms

    def durable(self, zxid: int, now_ms: int) -> None:
        """Our own disk has all up to `zxid`."""
        self._durable_zxid = zxid
        self._advance(now_ms)

    def tick(self, now_ms: int) -> None:
        if self.ended is not None:
            return
        if self.phase is not LeaderPhase.BROADCAST:
            if now_ms >= self._deadline_ms:
                self.ended = f"no quorum came through {self.phase.name} within initLimit"
            return
        if now_ms >= self._next_ping_ms:
            self._next_ping_ms = now_ms + self._limits.tick_ms // 2
            self._ping(now_ms)
        if now_ms >= self._next_quorum_check_ms:
            self._next_quorum_check_ms = now_ms + self._limits.tick_ms
            self._check_quorum(now_ms)

    def next_deadline_ms(self) -> int:
        if self.phase is not LeaderPhase.BROADCAST:
            return self._deadline_ms
        return min(self._next_ping_ms, self._next_quorum_check_ms)

    # The phases

    def _introduced(self, learner: _Learner, packet: QuorumPacket, now_ms: int) -> None:
        if packet.type not in (PacketType.FOLLOWERINFO, PacketType.OBSERVERINFO):
            raise ProtocolError(f"a learner begins with packet {packet.type}")
        info = read_learner_info(packet)
        if info.protocol_version < PROTOCOL_VERSION:
            raise ProtocolError(f"server {info.server_id} speaks ZAB before 1.0")
        if info.config_version > 0:
            raise ProtocolError(f"server {info.server_id} has a reconfigured ensemble")
        if info.server_id == self._my_id:
            raise ProtocolError(f"a learner has our own id, {info.server_id}")
        learner.info = info
        learner.is_observer = (
            packet.type == PacketType.OBSERVERINFO or info.server_id not in self._voters
        )
        for other in [other for other in self._learners.values() if other is not learner]:
            if other.info.server_id == info.server_id:
                self._close(other)  # its old connection
        learner.stage = LearnerStage.INTRODUCED
        accepted_epoch = epoch_of(packet.zxid)
        if self.phase is LeaderPhase.DISCOVERY:
            self.epoch = max(self.epoch, accepted_epoch + 1)
            if not learner.is_observer:
                self._connecting.add(info.server_id)
            self._discover(now_ms)
        else:
            self._inform(learner)

    def _discover(self, now_ms: int) -> None:
        if 2 * len(self._connecting) <= len(self._voters):
            return
        self._host.save_accepted_epoch(self.epoch)
        self.phase = LeaderPhase.ACCEPTING
        self._deadline_ms = now_ms + self._limits.init_ms
        for learner in self._learners.values():
            if learner.stage is LearnerStage.INTRODUCED:
                self._inform(learner)
        self._accepted.add(self._my_id)
        self._accept(now_ms)

    def _inform(self, learner: _Learner) -> None:
        data = epoch_data(PROTOCOL_VERSION)
        self._send(learner, QuorumPacket(PacketType.LEADERINFO, first_zxid(self.epoch), data))
        learner.stage = LearnerStage.INFORMED

    def _epoch_accepted(self, learner: _Learner, packet: QuorumPacket, now_ms: int) -> None:
        learner.current_epoch = read_epoch_data(packet)
        learner.last_zxid = packet.zxid
        learner.stage = LearnerStage.ACCEPTED
        if self.phase > LeaderPhase.ACCEPTING:
            self._sync(learner)
            return
        if learner.current_epoch != ALREADY_ACCEPTED:
            theirs = (learner.current_epoch, learner.last_zxid)
            if not learner.is_observer and theirs > (self._current_epoch, self._start_zxid):
                self.ended = f"server {learner.info.server_id} has a newer log"
                return
            if not learner.is_observer:
                self._accepted.add(learner.info.server_id)
        self._accept(now_ms)

    def _accept(self, now_ms: int) -> None:
        if self.phase is not LeaderPhase.ACCEPTING or 2 * len(self._accepted) <= len(self._voters):
            return
        self._host.save_current_epoch(self.epoch)
        self.phase = LeaderPhase.SYNCING
        self._deadline_ms = now_ms + self._limits.init_ms
        for learner in self._learners.values():
            if learner.stage is LearnerStage.ACCEPTED:
                self._sync(learner)
        self._establish(now_ms)

    def _sync(self, learner: _Learner) -> None:
        """Send what the learner lacks, and NEWLEADER."""
        plan = self._history.plan(learner.last_zxid, self.committed_zxid)
        after = plan.after
        if plan.type is PacketType.SNAP:
            captured = self._host.capture()
            after = captured.zxid
            if captured.zxid > self.committed_zxid:
                learner.held_for_zxid = captured.zxid
            self._send(learner, QuorumPacket(PacketType.SNAP, captured.zxid))
            self._send_bytes(learner, encode_tree(captured, signed=True))
        else:
            self._send(learner, QuorumPacket(plan.type, plan.zxid))
        for zxid, data in self._history.behind(after):
            is_committed = zxid <= self.committed_zxid
            if is_committed or not learner.is_observer:
                self._send(learner, QuorumPacket(PacketType.PROPOSAL, zxid, data))
            if is_committed:
                self._send(learner, QuorumPacket(PacketType.COMMIT, zxid))
        self._send(learner, QuorumPacket(PacketType.NEWLEADER, first_zxid(self.epoch)))
        learner.stage = LearnerStage.SYNCING

    def _new_leader_acked(self, learner: _Learner, packet: QuorumPacket, now_ms: int) -> None:
        if packet.zxid != first_zxid(self.epoch):
            raise ProtocolError(f"NEWLEADER is acknowledged with {packet.zxid:#x}")
        learner.stage = LearnerStage.SYNCED
        learner.waits_since_ms = None
        if self.phase is LeaderPhase.BROADCAST:
            self._release(learner)
        else:
            self._establish(now_ms)

    def _establish(self, now_ms: int) -> None:
        synced = [it for it in self._voting() if it.stage >= LearnerStage.SYNCED]
        if 2 * (len(synced) + 1) <= len(self._voters) or self.phase is not LeaderPhase.SYNCING:
            return
        self.phase = LeaderPhase.BROADCAST
        self._next_ping_ms = now_ms + self._limits.tick_ms // 2
        self._next_quorum_check_ms = now_ms + self._limits.tick_ms
        self._host.established(self.epoch, now_ms)
        for learner in list(self._learners.values()):
            if learner.stage is LearnerStage.SYNCED:
                self._release(learner)

    def _release(self, learner: _Learner) -> None:
        self._send(learner, QuorumPacket(PacketType.UPTODATE, -1))
        learner.stage = LearnerStage.SERVING

    # Broadcast

    def _serve(self, learner: _Learner, packet: QuorumPacket, now_ms: int) -> None:
        kind = packet.type
        if kind == PacketType.ACK:
            if packet.zxid & 0xFFFF_FFFF and not learner.is_observer:
                learner.acked_zxid = max(learner.acked_zxid, packet.zxid)
                is_done = packet.zxid >= self._history.last_zxid
                learner.waits_since_ms = None if is_done else now_ms
                self._advance(now_ms)
        elif kind == PacketType.PING:
            for session_id, timeout_ms in read_touches(packet):
                self._host.touch(session_id, timeout_ms, now_ms)
        elif kind == PacketType.REVALIDATE:
            session_id, timeout_ms = read_revalidation(packet)
            server_id = learner.info.server_id
            is_valid = self._host.revalidate(session_id, timeout_ms, server_id, now_ms)
            self._send(learner, validity(session_id, is_valid))
        elif kind == PacketType.REQUEST:
            self._host.forwarded(learner.info.server_id, read_forwarded(packet), now_ms)
        else:
            raise ProtocolError(f"a learner sends packet {kind}")

    def sync_requested(self, learner_id: int) -> None:
        """A learner's client wants all that is decided by now."""
        for learner in self._learners.values():
            if learner.info.server_id == learner_id:
                self._syncs.append((self._history.last_zxid, learner))
        self._answer_syncs()

    def _answer_syncs(self) -> None:
        while self._syncs and self._syncs[0][0] <= self.committed_zxid:
            _, learner = self._syncs.pop(0)
            if self._learners.get(learner.link) is learner:
                self._send(learner, QuorumPacket(PacketType.SYNC, 0))

    def _advance(self, now_ms: int) -> None:
        """Commit all that a quorum of voters has on disk."""
        if not self.is_broadcasting:
            return
        acked = [it.acked_zxid for it in self._voting() if it.stage >= LearnerStage.SYNCED]
        acked.append(self._durable_zxid)
        acked.sort(reverse=True)
        quorum = len(self._voters) // 2 + 1
        if len(acked) < quorum:
            return
        zxid = acked[quorum - 1]
        if zxid <= self.committed_zxid:
            return
        newly = self._history.behind(self.committed_zxid)
        for logged in newly:
            if logged.zxid > zxid:
                break
            self.committed_zxid = logged.zxid
            self._tell_committed(logged.zxid, logged.data)
        self._host.committed(self.committed_zxid)
        self._answer_syncs()

    def _tell_committed(self, zxid: int, data: bytes) -> None:
        commit = encode_packet(QuorumPacket(PacketType.COMMIT, zxid))
        for learner in self._learners.values():
            if learner.stage < LearnerStage.SYNCING:
                continue
            if learner.held_for_zxid is not None and learner.held_for_zxid >= zxid:
                if learner.held_for_zxid == zxid:
                    self._let_go(learner)
                continue  # the snapshot has it
            if learner.is_observer:
                self._send(learner, QuorumPacket(PacketType.INFORM, zxid, data))
            else:
                self._send_bytes(learner, commit)

    def _ping(self, now_ms: int) -> None:
        packet = encode_packet(QuorumPacket(PacketType.PING, self._history.last_zxid))
        for learner in list(self._learners.values()):
            if learner.stage < LearnerStage.SYNCING:
                continue
            waits_since_ms = learner.waits_since_ms
            is_late = waits_since_ms is not None and now_ms - waits_since_ms > self._limits.sync_ms
            if is_late and learner.stage is LearnerStage.SERVING:
                self._close(learner)  # it answers, but its disk does not
            elif not self._is_alive(learner, now_ms):
                self._close(learner)
            else:
                self._send_bytes(learner, packet)

    def _check_quorum(self, now_ms: int) -> None:
        alive = 1 + sum(1 for it in self._voting() if self._is_alive(it, now_ms))
        if 2 * alive <= len(self._voters):
            self.ended = f"only {alive} of {len(self._voters)} members are in sync"

    def _is_alive(self, learner: _Learner, now_ms: int) -> bool:
        is_serving = learner.stage is LearnerStage.SERVING
        limit_ms = self._limits.sync_ms if is_serving else self._limits.init_ms
        return learner.stage > LearnerStage.CONNECTED and now_ms - learner.heard_ms <= limit_ms

    def _voting(self) -> list[_Learner]:
        return [
            learner
            for learner in self._learners.values()
            if not learner.is_observer and learner.stage > LearnerStage.CONNECTED
        ]

    # Output

    def _send(self, learner: _Learner, packet: QuorumPacket) -> None:
        self._send_bytes(learner, encode_packet(packet))

    def _send_bytes(self, learner: _Learner, piece: Piece) -> None:
        if learner.held_for_zxid is not None:
            learner.held.append(piece)
        else:
            self._outbox.append((learner.link, piece))

    def _let_go(self, learner: _Learner) -> None:
        learner.held_for_zxid = None
        self._outbox += [(learner.link, piece) for piece in learner.held]
        learner.held.clear()

    def _close(self, learner: _Learner) -> None:
        self._learners.pop(learner.link, None)
        self._outbox.append((learner.link, None))
