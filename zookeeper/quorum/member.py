"""A member of an ensemble: it looks for a leader, leads or learns, and begins again.

Mirrors `QuorumPeer`. All parts meet here: the election, the leader or the learner, the machine of
the clients, the history, the files (`MemberStore`). The runtime moves bytes, makes records durable
in order (`durable`), and carries out the effects after each call.

Invariants:
- a frame for a client leaves only when every transaction that was applied before it is committed;
- a member votes, leads and learns only with a log that is on its disk as a whole, so that files
  are never cut or replaced while a record is being written;
- outside of a role it serves no client, or those alone that asked to read only (`read_only`),
  READ_ONLY_PATIENCE_MS after it has lost its leader, and not before its log is on its disk.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ...protocol.errors import ProtocolError
from ...protocol.zookeeper.constants import Op
from ..client_connection import Connection
from ..snapshot import Capture, capture
from ..transactions import Txn
from ..tree import DataTree
from ..tree_bytes import ReadTree
from ..txn_bytes import encode_txn
from .election import Election
from .election_messages import Notification, PeerState, decode_notification
from .ensemble_machine import EnsembleMachine
from .history import History, Logged
from .leader import Leader, LeaderHost, LearnerView, Limits, Piece
from .learner import Epochs, Learner, LearnerHost, LearnerStream, SnapshotWish
from .packets import ForwardedRequest, PacketReader

CONNECT_MS = 2_000  # to the leader's quorum port, as long as it does not listen yet
MAX_EARLY_BYTES = 64 * 1024  # from a learner, before we know that we lead
READ_ONLY_PATIENCE_MS = 2_000
LAST_COUNTER = 0xFFFF_FFFF
CONFIG_PATH = "/zookeeper/config"


class MemberStore(Protocol):
    """The member's files. Each call returns when its effect is on disk."""

    @property
    def epochs(self) -> Epochs: ...
    def save_accepted_epoch(self, epoch: int) -> None: ...
    def save_current_epoch(self, epoch: int) -> None: ...
    def truncate(self, zxid: int) -> tuple[DataTree, dict[int, int]] | None:
        """Drop all behind `zxid`; None if there is no state that ends with it."""

    def install(self, captured: Capture) -> None:
        """Make this the only state."""


class EnsembleSpec(NamedTuple):
    my_id: int
    voters: frozenset[int]
    is_observer: bool
    limits: Limits
    config: bytes = b""
    reads_alone: bool = False
    """Whether it serves clients that only read while there is no leader."""


class MemberEffects(NamedTuple):
    """To be carried out in this order; `records` become durable while the rest is sent."""

    records: list[bytes]
    frames: list[tuple[Connection, bytes | None]]
    notifications: list[tuple[int, bytes]]
    pieces: list[tuple[object, Piece]]
    """To the links of learners, or to `LEADER_LINK`."""
    connect_to: int | None
    """Connect `LEADER_LINK` to the quorum port of this server, in place of an older one."""
    closes_clients: bool


class _LeaderLink:
    """The token of the connection to our leader."""

    def __repr__(self) -> str:
        return "the leader's link"


LEADER_LINK = _LeaderLink()


class Member(LeaderHost, LearnerHost):
    __slots__ = (
        "_closes_clients",
        "_connect_deadline_ms",
        "_connect_to",
        "_durable_zxid",
        "_early",
        "_held",
        "_leader_stream",
        "_links",
        "_now_ms",
        "_pieces",
        "_read_only_at_ms",
        "_spec",
        "_store",
        "committed_zxid",
        "election",
        "held_frames",
        "history",
        "leader",
        "leader_id",
        "learner",
        "machine",
        "snapshot_wish",
        "why_looking",
    )

    def __init__(
        self,
        spec: EnsembleSpec,
        store: MemberStore,
        machine: EnsembleMachine,
        recent: Sequence[Txn],
        now_ms: int,
    ) -> None:
        self._spec = spec
        self._store = store
        self.machine = machine
        self.history = History(
            machine.tree.last_zxid,
            [Logged(txn.header.zxid, encode_txn(txn)) for txn in recent],
        )
        self.election = Election(
            spec.my_id, spec.voters, is_observer=spec.is_observer, config=spec.config
        )
        self.leader: Leader | None = None
        self.learner: Learner | None = None
        self.leader_id: int | None = None
        self.snapshot_wish: SnapshotWish | None = None
        self.committed_zxid = 0
        self.why_looking = "it has started"
        self._durable_zxid = machine.tree.last_zxid
        self._held: deque[tuple[int, list[tuple[Connection, bytes | None]]]] = deque()
        self.held_frames = 0  # that wait for a commit
        self._links: dict[object, PacketReader] = {}
        self._early: dict[object, bytearray] = {}
        self._pieces: list[tuple[object, Piece]] = []
        self._leader_stream = LearnerStream()
        self._connect_to: int | None = None
        self._connect_deadline_ms: int | None = None
        self._closes_clients = False
        # When it begins to serve without a leader; None: it does already, or never.
        self._read_only_at_ms: int | None = None
        self._now_ms = now_ms
        self._set_config()
        self._elect(now_ms)

    @property
    def state(self) -> PeerState:
        return self.election.state

    @property
    def is_serving(self) -> bool:
        return self.machine.is_serving

    @property
    def is_read_only(self) -> bool:
        """Whether it serves without a leader."""
        return self.machine.read_only is not None

    @property
    def learners(self) -> list[LearnerView]:
        return self.leader.learners if self.leader is not None else []

    # Calls of the runtime

    def take_effects(self, now_ms: int) -> MemberEffects:
        self._pump(now_ms)
        self._check_ends(now_ms)
        records, frames = self.machine.take_effects()
        if frames:
            self._held.append((self.machine.tree.last_zxid, frames))
            self.held_frames += len(frames)
        released: list[tuple[Connection, bytes | None]] = []
        while self._held and self._held[0][0] <= self.committed_zxid:
            released += self._held.popleft()[1]
        self.held_frames -= len(released)
        if self.machine.read_only is not None:
            released += self.machine.read_only.take_effects().frames
        pieces, self._pieces = self._pieces, []
        if self.leader is not None:
            pieces += self.leader.take_outbox()
        if self.learner is not None:
            pieces += [(LEADER_LINK, piece) for piece in self.learner.take_outbox()]
        connect_to, self._connect_to = self._connect_to, None
        closes, self._closes_clients = self._closes_clients, False
        notifications = self.election.take_outgoing()
        return MemberEffects(records, released, notifications, pieces, connect_to, closes)

    def tick(self, now_ms: int) -> None:
        self._now_ms = now_ms
        if not self._is_settled:
            return
        self.election.tick(now_ms)
        if self.leader is not None:
            self.leader.tick(now_ms)
            self.machine.tick(now_ms)
        elif self.learner is not None:
            self.learner.tick(now_ms)
        elif self.machine.read_only is not None:
            self.machine.tick(now_ms)
        elif self._read_only_at_ms is not None and now_ms >= self._read_only_at_ms:
            self._read_only_at_ms = None
            self.machine.serve_read_only(now_ms)
        deadline_ms = self._connect_deadline_ms
        if deadline_ms is not None and now_ms >= deadline_ms:
            self._look("the leader's quorum port does not answer", now_ms)

    def next_deadline_ms(self) -> int | None:
        if not self._is_settled:
            return None
        deadlines = [
            self.election.next_deadline_ms(),
            self._connect_deadline_ms,
            self._read_only_at_ms,
            self.machine.next_deadline_ms(),
        ]
        if self.leader is not None:
            deadlines.append(self.leader.next_deadline_ms())
        if self.learner is not None:
            deadlines.append(self.learner.next_deadline_ms())
        return min((at for at in deadlines if at is not None), default=None)

    def durable(self, zxid: int, now_ms: int) -> None:
        """All records up to the transaction `zxid` are on disk."""
        self._durable_zxid = zxid
        if self.leader is not None:
            self.leader.durable(zxid, now_ms)
        elif self.learner is not None:
            self.learner.durable(zxid)
        elif self.election.is_paused and self._is_settled:
            self._elect(now_ms)

    def notified(self, sender: int, data: bytes, now_ms: int) -> None:
        """A message of the election port. Raises ProtocolError."""
        if not self._is_settled:
            return  # it sends it again
        notification: Notification = decode_notification(data)
        self.election.receive(sender, notification, now_ms)

    def election_refused(self, member_id: int, now_ms: int) -> None:
        """Nothing listens at the election port of this member."""
        self.election.refused(member_id, now_ms)

    def election_disconnected(self, member_id: int) -> None:
        self.election.disconnected(member_id)

    def client_frame(self, connection: Connection, frame: bytes, now_ms: int) -> None:
        """Raises ProtocolError: the connection is to be closed."""
        self.machine.receive(connection, frame, now_ms)

    # Links to learners

    def learner_connected(self, link: object, now_ms: int) -> None:
        self._links[link] = PacketReader()
        if self.leader is not None:
            self.leader.connected(link, now_ms)
        elif self.election.state is PeerState.LOOKING:
            self._early[link] = bytearray()
        else:
            self._close_link(link)

    def learner_bytes(self, link: object, data: bytes, now_ms: int) -> None:
        """Raises ProtocolError: the connection is to be closed."""
        early = self._early.get(link)
        if early is not None:
            if len(early) + len(data) > MAX_EARLY_BYTES:
                raise ProtocolError("a learner sends more than its introduction")
            early += data
            return
        reader = self._links.get(link)
        if reader is None or self.leader is None:
            return
        reader.feed(data)
        while self.leader is not None and link in self._links:
            packet = reader.next()
            if packet is None:
                return
            self.leader.receive(link, packet, now_ms)
            self._pump(now_ms)

    def learner_disconnected(self, link: object) -> None:
        self._links.pop(link, None)
        self._early.pop(link, None)
        if self.leader is not None:
            self.leader.disconnected(link)

    # The link to our leader

    def leader_connected(self, now_ms: int) -> None:
        if self.leader_id is None or self.leader is not None or self.learner is not None:
            return
        self._connect_deadline_ms = None
        self._leader_stream = LearnerStream()
        spec = self._spec
        self.learner = Learner(
            self,
            spec.my_id,
            is_observer=spec.is_observer,
            limits=spec.limits,
            now_ms=now_ms,
            wish=self.snapshot_wish,
        )

    def leader_bytes(self, data: bytes, now_ms: int) -> None:
        """Raises ProtocolError: the connection is to be closed."""
        for packet in self._leader_stream.feed(data):
            if self.learner is None:
                return
            self._now_ms = now_ms
            self.learner.receive(packet, now_ms)

    def leader_disconnected(self, why: str, now_ms: int) -> None:
        if self.learner is not None:
            self._look(why, now_ms)

    # Roles

    @property
    def _is_settled(self) -> bool:
        """Whether the whole log is on disk, or a role allows that it is not."""
        if self.leader is not None or self.learner is not None:
            return True
        return self._durable_zxid >= self.machine.tree.last_zxid

    def _look(self, why: str, now_ms: int) -> None:
        """Give up the role, and begin an election as soon as the log is on disk."""
        self.why_looking = why
        self._pump(now_ms)
        for link in list(self._links):
            self._close_link(link)
        if self.leader_id is not None and self.leader is None:
            self._pieces.append((LEADER_LINK, None))
        self.leader = self.learner = None
        self.leader_id = None
        self.snapshot_wish = None
        self._connect_to = self._connect_deadline_ms = None
        self._held.clear()
        self.held_frames = 0
        self.machine.stop_serving()
        self._closes_clients = True
        self.committed_zxid = 0
        self.election.pause()
        if self._is_settled:
            self._elect(now_ms)

    def _elect(self, now_ms: int) -> None:
        zxid = self.history.last_zxid
        if self._spec.reads_alone:
            patience_ms = max(READ_ONLY_PATIENCE_MS, self._spec.limits.tick_ms)
            self._read_only_at_ms = now_ms + patience_ms
        self.election.start(zxid, self._store.epochs.current, now_ms)
        self._check_ends(now_ms)

    def _check_ends(self, now_ms: int) -> None:
        if self.leader is not None and self.leader.ended is not None:
            self._look(self.leader.ended, now_ms)
        elif self.learner is not None and self.learner.wish is not None:
            self._ask_for_snapshot(self.learner.wish, now_ms)
        elif self.learner is not None and self.learner.ended is not None:
            self._look(self.learner.ended, now_ms)
        elif self.election.decided is not None and self.leader_id is None:
            self._begin(self.election.decided.leader, now_ms)

    def _begin(self, leader_id: int, now_ms: int) -> None:
        self.leader_id = leader_id
        self._read_only_at_ms = None
        if self.machine.read_only is not None:
            self.machine.stop_serving()
            self._closes_clients = True
        if leader_id != self._spec.my_id:
            self._connect_to = leader_id
            self._connect_deadline_ms = now_ms + CONNECT_MS
            for link in list(self._links):
                self._close_link(link)
            return
        accepted, current = self._store.epochs
        spec = self._spec
        leader = self.leader = Leader(
            self, spec.my_id, spec.voters, spec.limits, self.history, accepted, current, now_ms
        )
        leader.begin(now_ms)
        early, self._early = self._early, {}
        for link in list(self._links):
            leader.connected(link, now_ms)
        for link, data in early.items():
            try:
                self.learner_bytes(link, bytes(data), now_ms)
            except ProtocolError:
                self._close_link(link)

    def _ask_for_snapshot(self, wish: SnapshotWish, now_ms: int) -> None:
        """Connect to the same leader once more. An election would come to no end where the leader
        needs us for its quorum: a member that leads takes part in no election."""
        self.snapshot_wish = wish
        self.learner = None
        self._pieces.append((LEADER_LINK, None))
        self._connect_to = self.leader_id
        self._connect_deadline_ms = now_ms + CONNECT_MS

    def _close_link(self, link: object) -> None:
        self._links.pop(link, None)
        self._early.pop(link, None)
        if self.leader is not None:
            self.leader.disconnected(link)
        self._pieces.append((link, None))

    def _pump(self, now_ms: int) -> None:
        """From the machine of the clients to the ensemble."""
        machine = self.machine
        if machine.proposals:
            proposals, machine.proposals = machine.proposals, []
            for zxid, data in proposals:
                self.history.append(zxid, data)
                if self.leader is not None and self.leader.is_broadcasting:
                    self.leader.propose(zxid, data, now_ms)
                    if zxid & LAST_COUNTER == LAST_COUNTER:
                        self.leader.ended = "the epoch has no zxid left"
        if machine.forwards:
            forwards, machine.forwards = machine.forwards, []
            for request in forwards:
                if self.learner is not None:
                    self.learner.forward(request)
        if machine.revalidations:
            asked, machine.revalidations = machine.revalidations, []
            for session_id, timeout_ms in asked:
                if self.learner is not None:
                    self.learner.revalidate(session_id, timeout_ms)

    def _set_config(self) -> None:
        """Each member shows its own configuration, in which no transaction takes part."""
        node = self.machine.tree.get(CONFIG_PATH)
        if node is not None and self._spec.config:
            self.machine.tree.data_size += len(self._spec.config) - len(node.data or b"")
            node.data = self._spec.config

    # Of a leader and a learner

    @property
    def epochs(self) -> Epochs:
        return self._store.epochs

    @property
    def last_zxid(self) -> int:
        return self.history.last_zxid

    def save_accepted_epoch(self, epoch: int) -> None:
        self._store.save_accepted_epoch(epoch)

    def save_current_epoch(self, epoch: int) -> None:
        self._store.save_current_epoch(epoch)

    def committed(self, zxid: int) -> None:
        self.committed_zxid = max(self.committed_zxid, zxid)

    # Of a leader

    def established(self, epoch: int, now_ms: int) -> None:
        self.committed_zxid = self.history.last_zxid
        self.election.established(epoch)
        self.machine.lead(epoch, now_ms)

    def capture(self) -> Capture:
        return capture(self.machine.tree, self.machine.sessions.timeouts_ms())

    def forwarded(self, learner_id: int, request: ForwardedRequest, now_ms: int) -> None:
        if request.op == Op.SYNC:
            assert self.leader is not None
            self._pump(now_ms)
            self.leader.sync_requested(learner_id)
        else:
            self.machine.forwarded(learner_id, request, now_ms)

    def touch(self, session_id: int, timeout_ms: int, now_ms: int) -> None:
        self.machine.touch(session_id, timeout_ms, now_ms)

    def revalidate(self, session_id: int, timeout_ms: int, learner_id: int, now_ms: int) -> bool:
        return self.machine.revalidate(session_id, timeout_ms, learner_id, now_ms)

    # Of a learner

    def truncate(self, zxid: int) -> bool:
        state = self._store.truncate(zxid)
        if state is None:
            return False
        tree, sessions = state
        self.machine.replace(tree, sessions, self._now_ms)
        self.history.truncate(zxid)
        self._durable_zxid = zxid
        self._set_config()
        return True

    def install(self, snapshot: ReadTree) -> None:
        self._store.install(capture(snapshot.tree, snapshot.sessions))
        self.machine.replace(snapshot.tree, snapshot.sessions, self._now_ms)
        self.snapshot_wish = None
        self.history.reset(snapshot.tree.last_zxid)
        self._durable_zxid = snapshot.tree.last_zxid
        self._set_config()

    def log(self, txn: Txn, data: bytes, *, may_be_there: bool, now_ms: int) -> None:
        self.history.append(txn.header.zxid, data)
        self.machine.log_from_leader(txn, may_be_there=may_be_there, now_ms=now_ms, record=data)

    def joined(self, epoch: int, now_ms: int) -> None:
        self.election.established(epoch)
        self.machine.learn(epoch)

    def take_touches(self) -> dict[int, int]:
        return self.machine.take_touches()

    def revalidated(self, session_id: int, is_valid: bool, now_ms: int) -> None:
        self.machine.revalidated(session_id, is_valid, now_ms)

    def synced(self, now_ms: int) -> None:
        self.machine.synced(now_ms)
