"""A learner whose files cannot be cut where its leader asks for it gets a snapshot instead."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.zookeeper.passwords import member_password
from pybroker_kafka.zookeeper.quorum.ensemble_machine import EnsembleMachine
from pybroker_kafka.zookeeper.quorum.history import History
from pybroker_kafka.zookeeper.quorum.leader import ALREADY_ACCEPTED, Limits
from pybroker_kafka.zookeeper.quorum.learner import Epochs, Learner, SnapshotWish
from pybroker_kafka.zookeeper.quorum.member import LEADER_LINK, EnsembleSpec, Member, MemberEffects
from pybroker_kafka.zookeeper.quorum.packets import (
    PROTOCOL_VERSION,
    LearnerInfo,
    PacketReader,
    PacketType,
    QuorumPacket,
    encode_packet,
    epoch_data,
    first_zxid,
    read_epoch_data,
    read_learner_info,
)
from pybroker_kafka.zookeeper.sessions import SessionTable
from pybroker_kafka.zookeeper.snapshot import Capture, capture
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.tree_bytes import encode_tree

LIMITS = Limits(tick_ms=100, init_limit=20, sync_limit=6)
CUT = first_zxid(1) | 0x16
OURS = first_zxid(1) | 0x17
EPOCH = 7


class Files:
    """Those of a member that has one snapshot and nothing before it."""

    def __init__(self) -> None:
        self.epochs = Epochs(EPOCH - 1, 1)
        self.installed: list[int] = []

    def save_accepted_epoch(self, epoch: int) -> None:
        self.epochs = self.epochs._replace(accepted=epoch)

    def save_current_epoch(self, epoch: int) -> None:
        self.epochs = self.epochs._replace(current=epoch)

    def truncate(self, zxid: int) -> None:
        assert zxid == CUT

    def install(self, captured: Capture) -> None:
        self.installed.append(captured.zxid)


class Following:
    """Member 3, for which 1 and 2 have voted for 2."""

    def __init__(self) -> None:
        self.files = Files()
        tree = DataTree()
        tree.last_zxid = OURS
        machine = EnsembleMachine(tree, SessionTable(100, member_password, 0, 3), 3)
        spec = EnsembleSpec(3, frozenset({1, 2, 3}), False, LIMITS)
        store: Any = self.files
        self.member = Member(spec, store, machine, [], 0)
        self.member._begin(2, 0)
        self.reader = PacketReader()

    def effects(self) -> MemberEffects:
        effects = self.member.take_effects(0)
        for link, piece in effects.pieces:
            assert link is LEADER_LINK
            if isinstance(piece, bytes):
                self.reader.feed(piece)
        return effects

    def connect(self) -> QuorumPacket:
        """Introduce ourselves to the leader of `EPOCH`; returns our ACKEPOCH."""
        assert self.effects().connect_to == 2
        self.member.leader_connected(0)
        self.effects()
        assert self.packet().type == PacketType.FOLLOWERINFO
        self.tell(QuorumPacket(PacketType.LEADERINFO, first_zxid(EPOCH), epoch_data(0x10000)))
        self.effects()
        return self.packet()

    def packet(self) -> QuorumPacket:
        packet = self.reader.next()
        assert packet is not None
        return packet

    def tell(self, packet: QuorumPacket) -> None:
        self.member.leader_bytes(encode_packet(packet), 0)

    def fail_to_cut(self) -> None:
        assert self.connect().zxid == OURS
        self.tell(QuorumPacket(PacketType.TRUNC, CUT))


def test_a_snapshot_takes_the_place_of_files_that_cannot_be_cut() -> None:
    following = Following()
    following.fail_to_cut()
    effects = following.effects()
    # The same leader, without an election: it may lack nothing but us for its quorum.
    assert (LEADER_LINK, None) in effects.pieces
    assert following.member.leader_id == effects.connect_to == 2
    assert following.member.snapshot_wish == SnapshotWish(EPOCH, CUT)
    assert following.files.installed == []
    following.member._connect_to = 2  # taken above
    again = following.connect()
    assert (again.zxid, read_epoch_data(again)) == (0, ALREADY_ACCEPTED)
    tree = DataTree()
    tree.last_zxid = CUT
    following.tell(QuorumPacket(PacketType.SNAP, CUT))
    following.member.leader_bytes(b"".join(encode_tree(capture(tree, {}), signed=True)), 0)
    assert following.files.installed == [CUT]
    assert following.member.last_zxid == CUT
    assert following.member.snapshot_wish is None
    following.tell(QuorumPacket(PacketType.NEWLEADER, first_zxid(EPOCH)))
    following.effects()
    assert following.packet() == QuorumPacket(PacketType.ACK, first_zxid(EPOCH))


@pytest.mark.parametrize("kind", [PacketType.DIFF, PacketType.TRUNC])
def test_nothing_but_a_snapshot_is_taken_then(kind: PacketType) -> None:
    following = Following()
    following.fail_to_cut()
    following.effects()
    following.member._connect_to = 2
    following.connect()
    following.tell(QuorumPacket(kind, CUT))
    following.effects()
    assert following.member.leader_id is None
    assert "asked for a snapshot" in following.member.why_looking
    assert following.member.last_zxid == OURS
    assert following.files.installed == []


def test_another_epoch_gets_the_truth() -> None:
    """There, our word may count for what its leader has to have."""
    host: Any = Following().member
    learner = Learner(
        host, 3, is_observer=False, limits=LIMITS, now_ms=0, wish=SnapshotWish(EPOCH - 1, CUT)
    )
    learner.receive(QuorumPacket(PacketType.LEADERINFO, first_zxid(EPOCH), epoch_data(0x10000)), 0)
    reader = PacketReader()
    reader.feed(b"".join(learner.take_outbox()))
    info, answer = reader.next(), reader.next()
    assert info is not None
    assert read_learner_info(info) == LearnerInfo(3, PROTOCOL_VERSION, 0)
    assert answer is not None
    assert (answer.zxid, read_epoch_data(answer)) == (OURS, 1)


@pytest.mark.parametrize("committed", [first_zxid(1) | 1, CUT, first_zxid(6) | 9])
def test_a_leader_of_ours_sends_a_snapshot_to_whoever_has_no_log(committed: int) -> None:
    assert History(committed).plan(0, committed).type == PacketType.SNAP
