"""States of the coordinators and of ZooKeeper that must not exist, made by hand: each is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pybroker_kafka.coordinator.group.core import Core as GroupCore
from pybroker_kafka.coordinator.group.group import Group
from pybroker_kafka.coordinator.group.members import JoinTicket, Member, MemberProtocol, SyncTicket
from pybroker_kafka.coordinator.group.rebalance import Rebalance
from pybroker_kafka.coordinator.group.states import GroupState
from pybroker_kafka.coordinator.group.timers import Timer, TimerKind
from pybroker_kafka.coordinator.transaction.core import Core as TransactionCore
from pybroker_kafka.coordinator.transaction.metadata import TransactionMetadata, Transition
from pybroker_kafka.coordinator.transaction.records import decode_value, transaction_value
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.zookeeper.transactions import (
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    Txn,
    TxnHeader,
)
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.txn_bytes import encode_txn
from pybroker_kafka.zookeeper.wal import (
    RecoveryError,
    encode_records,
    log_header,
    log_name,
    recover,
)
from tests.support.zookeeper_machine import World

S = TransactionState

# Groups


def member(member_id: str, *, instance: str | None = None, kind: str = "consumer") -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=instance,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1000,
        session_timeout_ms=1000,
        protocol_type=kind,
        protocols=[MemberProtocol("range", b"")],
    )


@pytest.fixture
def group() -> Group:
    """Stable, with the members `a` and `b`; `b` has the instance id `i`."""
    group = Group("g", 0, 0)
    group.add(member("a"))
    group.add(member("b", instance="i"))
    group.transition_to(GroupState.PREPARING_REBALANCE, 0)
    group.next_generation(0)
    group.transition_to(GroupState.STABLE, 0)
    return group


def wrong_key(group: Group) -> None:
    group.members["z"] = group.members.pop("a")
    group.leader_id = "z"


def _set(name: str, value: object) -> Callable[[Group], None]:
    return lambda group: setattr(group, name, value)


@pytest.mark.parametrize(
    ("break_it", "fact"),
    [
        (wrong_key, "member ids"),
        (_set("protocol_type", "connect"), "protocol types"),
        (_set("static_members", {}), "static members"),
        (lambda group: group._protocol_support.update(["range"]), "protocols"),
        (_set("awaiting_join_count", 1), "JoinGroups that wait"),
        (_set("leader_id", "z"), "leader"),
        (_set("pending_sync_members", {"z"}), "who is to sync"),
        (_set("pending_members", {"a": Timer(TimerKind.SESSION)}), "who is to join"),
        (_set("state", GroupState.EMPTY), "members"),
    ],
)
def test_a_group(group: Group, break_it: Callable[[Group], None], fact: str) -> None:
    group.check()
    break_it(group)
    with pytest.raises(BrokenInvariant, match=f"'{fact}'"):
        group.check()


def test_a_stable_group_without_members(group: Group) -> None:
    for one in list(group.members.values()):
        group.remove(one)
    with pytest.raises(BrokenInvariant, match="'no members'"):
        group.check()


def test_each_transition_of_a_group_is_checked(group: Group) -> None:
    group.awaiting_join_count = 1
    with pytest.raises(BrokenInvariant, match="JoinGroups that wait"):
        group.transition_to(GroupState.PREPARING_REBALANCE, 0)
    with pytest.raises(BrokenInvariant, match="cannot go from"):
        group.transition_to(GroupState.STABLE, 0)


def test_members_of_a_group(group: Group) -> None:
    changes: list[tuple[Callable[[], object], str]] = [
        (lambda: group.add(member("a")), "has a"),
        (lambda: group.add(member("c", instance="i")), "has c, i"),
        (lambda: group.add(member("c", kind="connect")), "is of consumer, not connect"),
        (lambda: group.check_assignment(["a", "b", "c"]), "assigns to"),
        (lambda: group.check_assignment(["a"]), "assigns to"),
    ]
    for change, fact in changes:
        with pytest.raises(BrokenInvariant, match=fact):
            change()
    first = group.members["a"]
    first.awaiting_sync = SyncTicket("token")
    with pytest.raises(BrokenInvariant, match="goes, and waits"):
        group.remove(first)
    group.awaiting_join_count = 2
    with pytest.raises(BrokenInvariant, match="3 JoinGroups wait, of 2"):
        group.set_awaiting_join(first, JoinTicket("token", 5))


def test_phases_of_a_group(group: Group) -> None:
    core: Any = None
    rebalance = Rebalance(core)
    with pytest.raises(BrokenInvariant, match="Stable, and the join timer"):
        rebalance.join_timed_out(group, 0)
    with pytest.raises(BrokenInvariant, match="Stable, and its assignment fails"):
        rebalance.fail_assignment(group, None, 0)  # type: ignore[arg-type]
    group.state = GroupState.EMPTY
    with pytest.raises(BrokenInvariant, match="Empty, and the sync timer"):
        rebalance.sync_timed_out(group, 0)


def test_an_append_is_answered_once() -> None:
    one: Any
    for core in (GroupCore, TransactionCore):
        one = object.__new__(core)
        one._appends = {}
        with pytest.raises(BrokenInvariant, match="append 3 is answered twice"):
            one.take_completion(3)


# Transactions


def transaction(state: TransactionState, epoch: int = 3) -> TransactionMetadata:
    return TransactionMetadata(
        "id", 7, epoch, 1000, 1, state=state, partitions=frozenset({("t", 0)}), start_ms=1
    )


BUMP = (S.COMPLETE_COMMIT, lambda m: m.prepare_epoch_bump(1000, -1, 5))
ADD = (S.ONGOING, lambda m: m.prepare_add_partitions(frozenset({("t", 1)}), 5))
COMMIT = (S.ONGOING, lambda m: m.prepare_end(5, committed=True))


@pytest.mark.parametrize(
    ("begin", "changed"),
    [
        (BUMP, {"producer_epoch": 5}),  # one too far
        (BUMP, {"producer_epoch": 2}),  # back
        (BUMP, {"producer_id": 8}),  # a new producer does not begin at 0
        (BUMP, {"state": S.ONGOING}),
        (ADD, {"producer_id": 8}),
        (ADD, {"producer_epoch": 4}),
        (ADD, {"timeout_ms": 1}),
        (ADD, {"partitions": frozenset({("t", 1)})}),  # one is lost
        (COMMIT, {"partitions": frozenset()}),
        (COMMIT, {"start_ms": 2}),
    ],
)
def test_a_transition_is_completed_as_it_was_prepared(begin: Any, changed: dict[str, Any]) -> None:
    state, prepare = begin
    metadata = transaction(state)
    transition: Transition = prepare(metadata)
    before = metadata.state, metadata.producer_epoch, set(metadata.partitions)
    with pytest.raises(BrokenInvariant, match="completes"):
        metadata.complete(transition._replace(**changed), 0)
    assert (metadata.state, metadata.producer_epoch, metadata.partitions) == before
    metadata.complete(transition, 0)


def test_a_state_that_has_changed_beside_its_transition() -> None:
    metadata = transaction(S.ONGOING)
    transition = metadata.prepare_end(5, committed=True)
    metadata.state = S.PREPARE_ABORT
    with pytest.raises(BrokenInvariant, match="completes"):
        metadata.complete(transition, 0)


def test_steps_of_a_transaction() -> None:
    ongoing = transaction(S.ONGOING)
    steps: list[tuple[Callable[[], object], str]] = [
        (lambda: ongoing.prepare_epoch_bump(1000, -1, 5), "cannot become Empty"),
        (lambda: ongoing.fence(4), "was not about to be"),
        (lambda: ongoing.marker_written(("t", 0)), "a marker for"),
        (lambda: transaction(S.EMPTY, 2**15 - 1).prepare_epoch_bump(1, -1, 5), "no other epoch"),
        (lambda: transaction(S.PREPARE_COMMIT).as_logged(), "is about to change"),
        (
            lambda: transaction(S.EMPTY).prepare_new_producer_id(-1, 1, 5, keep_last_epoch=False),
            "is to become producer -1/0",
        ),
    ]
    for step, fact in steps:
        with pytest.raises(BrokenInvariant, match=fact):
            step()
    ongoing.prepare_epoch_fence()
    with pytest.raises(BrokenInvariant, match="is fenced with epoch 2"):
        ongoing.fence(2)


def test_an_epoch_that_is_not_in_the_log_answers_nobody() -> None:
    metadata = transaction(S.ONGOING)
    metadata.check_is_logged()
    metadata.fence(metadata.prepare_epoch_fence())
    with pytest.raises(BrokenInvariant, match="its log has epoch 3"):
        metadata.check_is_logged()
    metadata.complete(metadata.prepare_end(5, committed=False), 0)
    metadata.check_is_logged()


def test_a_producer_that_was_logged_wrong_is_input() -> None:
    logged = Transition(S.EMPTY, -1, 3, -1, 1000, frozenset(), -1, 1)
    with pytest.raises(ProtocolError, match="producer -1/3"):
        decode_value("id", transaction_value(logged))


# ZooKeeper


def txn(zxid: int, body: Any, op: Op = Op.CREATE) -> Txn:
    return Txn(TxnHeader(1, 1, zxid, 0, op), body)


def create(path: str, owner: int = 0) -> CreateTxn:
    return CreateTxn(path, b"", OPEN_ACL, owner, 1)


def test_the_tree() -> None:
    tree = DataTree()
    tree.apply(txn(5, create("/a")))
    tree.apply(txn(6, create("/a/b")))
    for broken, fact in (
        (txn(6, create("/c")), "is to follow zxid 0x6"),
        (txn(7, create("/a")), "is made, and is there"),
        (txn(7, DeleteTxn("/a"), Op.DELETE), "is deleted, and has"),
    ):
        with pytest.raises(BrokenInvariant, match=fact):
            tree.apply(broken)
    assert tree.last_zxid == 6
    assert tree.nodes["/a"].children == {"b": None}


def test_an_ephemeral_node_goes_with_its_session() -> None:
    world = World()
    client = world.client()
    client.create("/a", flags=1)
    world.machine.sessions.remove(client.session_id)
    with pytest.raises(BrokenInvariant, match="sessions that are over"):
        world.client()


def test_no_session_expires_before_its_time() -> None:
    world = World()
    session = world.machine.sessions.sessions[world.client().session_id]
    world.machine.sessions._buckets[0] = {session.session_id: None}
    with pytest.raises(BrokenInvariant, match="before their time"):
        world.machine.tick(world.now_ms)


@pytest.mark.parametrize("body", [create("/zookeeper"), create("/no/parent")])
def test_a_logged_transaction_that_cannot_be_applied_is_input(body: CreateTxn) -> None:
    records = [encode_txn(txn(1, ErrorTxn(0), Op.ERROR)), encode_txn(txn(2, body))]
    data = log_header() + encode_records(records)
    with pytest.raises(RecoveryError, match="transaction 0x2, which cannot be applied"):
        recover([log_name(1)], lambda _name: data)
