"""Random members, timeouts, leaves, append failures and restarts against the rules of a group.

Each seed is one run: a few clients that mostly follow the protocol, among requests that do not.
Checked after every step: the structure of every group; an answer comes once at most; no generation
goes back; appends in flight are those that the broker has not reported. Checked at the end: all
requests have been answered, and no timer is left behind. Throughout: in one generation a partition
has one owner, and committed offsets are those of a dictionary (the dumb twin).
"""

import random
from collections import Counter

import pytest

from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.group import Group
from pybroker_kafka.coordinator.group.states import GroupState
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.wall_clock import NOT_SEEN
from tests.support import examples
from tests.unit.coordinator.group.harness import (
    START_MS,
    Call,
    Harness,
    partition_errors,
    subscription,
)

GROUPS = ("g1", "g2")
TOPIC = "topic-1"
PARTITIONS = [(TOPIC, n) for n in range(4)]
STEPS = 250
SEEDS = examples.of(20)
APPEND_ERRORS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.MESSAGE_TOO_LARGE,
)
REJOIN_WITH_NEW_ID = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
)


class OffsetsTwin:
    """Committed offsets as a dictionary, told of every answer and deletion."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.in_flight: list[tuple[Call, str, dict[tuple[str, int], int]]] = []

    def sent(self, call: Call, group: str, offsets: dict[tuple[str, int], int]) -> None:
        self.in_flight.append((call, group, dict(offsets)))
        self.settle()

    def settle(self) -> None:
        for entry in list(self.in_flight):
            call, group, offsets = entry
            if call.is_waiting:
                continue
            self.in_flight.remove(entry)
            errors = partition_errors(call)
            for partition, offset in offsets.items():
                if errors[partition] is ErrorCode.NONE:
                    self.offsets[(group, *partition)] = offset

    def forget(self, groups: tuple[str, ...], partitions: list[tuple[str, int]]) -> None:
        """Offsets were deleted, those on their way included."""
        for group in groups:
            for partition in partitions:
                self.offsets.pop((group, *partition), None)
        for _, group, offsets in self.in_flight:
            if group in groups:
                for partition in partitions:
                    offsets.pop(partition, None)


class Client:
    """A consumer that follows the protocol, at its own pace."""

    def __init__(self, world: "World", name: str, rng: random.Random) -> None:
        self.world = world
        self.name = name
        self.rng = rng
        self.group = rng.choice(GROUPS)
        self.instance = f"instance-{name}" if rng.random() < 0.4 else None
        self.version = rng.choice((3, 5, 9)) if self.instance is None else 9
        self.member_id = ""
        self.generation_id = -1
        self.protocol: tuple[str | None, str | None] = ("consumer", None)
        self.joining: Call | None = None
        self.syncing: Call | None = None

    @property
    def identity(self) -> str:
        """What may own a partition: a static member keeps its assignment under a new id."""
        return self.instance or self.member_id

    def step(self) -> None:
        if self.joining is not None:
            self._after_join(self.joining)
        elif self.syncing is not None:
            self._after_sync(self.syncing)
        elif self.generation_id < 0:
            self._join()
        else:
            self._be_a_member()

    def forget(self) -> None:
        """Crash: the process starts anew and knows nothing."""
        self.member_id = ""
        self.generation_id = -1
        self.joining = self.syncing = None

    def _join(self) -> None:
        names = self.rng.sample(["range", "sticky", "robin"], self.rng.randint(1, 3))
        if "range" not in names and self.rng.random() < 0.9:
            names.append("range")
        self.joining = self.world.harness.join(
            self.member_id,
            group=self.group,
            instance=self.instance,
            protocols={name: subscription(TOPIC) for name in names},
            version=self.version,
            session_ms=self.rng.choice((6_000, 10_000, 30_000)),
            rebalance_ms=self.rng.choice((5_000, 20_000)),
        )

    def _after_join(self, call: Call) -> None:
        if call.is_waiting:
            return
        self.joining = None
        response = call.response
        if call.error is ErrorCode.NONE:
            self.member_id = response.member_id
            self.generation_id = response.generation_id
            self.protocol = ("consumer", response.protocol_name)
            self._sync(response)
        elif call.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif call.error in REJOIN_WITH_NEW_ID:
            self.forget()

    def _sync(self, response: object) -> None:
        members = [m.member_id for m in getattr(response, "members", [])]
        given: dict[str, list[int]] = {}
        if members and not getattr(response, "skip_assignment", False):
            for index, partition in enumerate(PARTITIONS):
                owner = members[index % len(members)]
                given.setdefault(owner, []).append(partition[1])
        if self.rng.random() < 0.9:
            self.syncing = self.world.harness.sync(
                self.member_id,
                self.generation_id,
                {member: bytes(indexes) for member, indexes in given.items()},
                group=self.group,
                instance=self.instance,
                protocol=self.protocol,
            )

    def _after_sync(self, call: Call) -> None:
        if call.is_waiting:
            return
        self.syncing = None
        if call.error is ErrorCode.NONE:
            owned = bytes(call.response.assignment)
            self.world.assigned(self.group, self.generation_id, owned, self.identity)
        elif call.error in REJOIN_WITH_NEW_ID:
            self.forget()
        else:
            self.generation_id = -1

    def _be_a_member(self) -> None:
        harness = self.world.harness
        action = self.rng.random()
        if action < 0.5:
            error = harness.heartbeat(
                self.member_id, self.generation_id, group=self.group, instance=self.instance
            )
            if error in REJOIN_WITH_NEW_ID:
                self.forget()
            elif error is not ErrorCode.NONE:
                self.generation_id = -1
        elif action < 0.8:
            self.world.commit(
                self.group,
                generation_id=self.generation_id,
                member_id=self.member_id,
                instance=self.instance,
            )
        elif action < 0.9:
            self.generation_id = -1
        elif action < 0.95:
            harness.leave((self.member_id, self.instance), group=self.group)
            self.forget()
        else:
            self.forget()


class World:
    """A coordinator, its clients, and what is known to be true of them."""

    def __init__(self, seed: int, *, with_failures: bool) -> None:
        self.rng = random.Random(seed)
        config = GroupConfig(
            initial_rebalance_delay_ms=self.rng.choice((0, 1_000, 3_000)),
            max_size=self.rng.choice((3, 100)),
        )
        self.with_failures = with_failures
        self.harness = Harness(config)
        self.twin = OffsetsTwin()
        self.owners: dict[tuple[str, int, int], str] = {}
        self.generations: dict[str, int] = {}
        self.seen: dict[str, Group] = {}
        self.next_offset = 0
        self.clients = [Client(self, f"c{n}", self.rng) for n in range(5)]

    def assigned(self, group: str, generation_id: int, indexes: bytes, identity: str) -> None:
        for index in indexes:
            owner = self.owners.setdefault((group, generation_id, index), identity)
            assert owner == identity, f"two owners of {index} in {group} {generation_id}"

    def commit(self, group: str, **identity: object) -> None:
        self.next_offset += 1
        chosen = self.rng.sample(PARTITIONS, self.rng.randint(1, 3))
        offsets = dict.fromkeys(chosen, self.next_offset)
        self.harness.repeats_commits = self.rng.random() < 0.5
        call = self.harness.commit(offsets, group=group, **identity)  # type: ignore[arg-type]
        self.twin.sent(call, group, offsets)

    def step(self) -> None:
        rng, harness = self.rng, self.harness
        action = rng.random()
        if action < 0.6:
            rng.choice(self.clients).step()
        elif action < 0.8:
            harness.advance(rng.choice((1, 100, 1_000, 3_000, 8_000)))
        elif action < 0.85:
            harness.is_holding = not harness.is_holding
            if not harness.is_holding:
                harness.release()
        elif action < 0.9:
            fails = self.with_failures and rng.random() < 0.3
            harness.release(rng.choice(APPEND_ERRORS) if fails else ErrorCode.NONE)
        else:
            self._odd_request()
        self.twin.settle()
        self.check()

    def _odd_request(self) -> None:
        rng, harness = self.rng, self.harness
        group = rng.choice(GROUPS)
        member_id = rng.choice([c.member_id for c in self.clients] + ["stranger", ""])
        match rng.randrange(7):
            case 0:
                harness.sync(member_id, rng.randrange(4), {member_id: b"\x00"}, group=group)
            case 1:
                harness.join(member_id, group=group, protocols={"range": b"junk"})
            case 2:
                harness.leave((member_id, rng.choice((None, "instance-c1"))), group=group)
            case 3:
                self.commit(group)
            case 4:
                if harness.delete_group(group) is ErrorCode.NONE:
                    self.twin.forget((group,), PARTITIONS)
                    self.generations.pop(group, None)
                    self.owners = {k: v for k, v in self.owners.items() if k[0] != group}
            case 5:
                partition = rng.choice(PARTITIONS)
                harness.machine.partitions_deleted([partition], harness.now_ms)
                harness.perform()
                self.twin.forget(GROUPS, [partition])
            case _:
                partition = rng.choice(PARTITIONS)
                call = harness.delete_offsets(partition, group=group)
                error = call.error or partition_errors(call)[partition]
                if error is ErrorCode.NONE:
                    self.twin.forget((group,), [partition])

    def check(self) -> None:
        machine = self.harness.machine
        in_flight = machine.appends_in_flight + len(self.harness.repeated)
        assert in_flight == len(self.harness.held)
        for group in machine.groups:
            check_structure(group)
            if self.seen.get(group.group_id) is not group:
                # A group may be removed when nothing is left of it, and begin again.
                self.seen[group.group_id] = group
                self.generations.pop(group.group_id, None)
                self.owners = {
                    k: v
                    for k, v in self.owners.items()
                    if k[0] != group.group_id or group.generation_id > 0
                }
            previous = self.generations.get(group.group_id, -1)
            assert group.generation_id >= previous
            self.generations[group.group_id] = group.generation_id
        for name in GROUPS:
            topics = machine.fetch_offsets(name, None).topics
            found = {
                (name, t.name, e.partition_index): e.committed_offset
                for t in topics
                for e in t.partitions
            }
            assert found == {k: v for k, v in self.twin.offsets.items() if k[0] == name}

    def settle(self) -> None:
        """Let everything that waits come to its end."""
        self.harness.is_holding = False
        self.harness.release()
        for _ in range(5):
            self.harness.advance(20_000)
        self.twin.settle()
        self.check()


def check_structure(group: Group) -> None:
    members = group.members
    waiting = sum(member.awaiting_join is not None for member in members.values())
    assert group.awaiting_join_count == waiting
    assert all(key == member.member_id for key, member in members.items())
    assert all(m.session_timer.member_id == m.member_id for m in members.values())
    assert group.static_members == {
        m.group_instance_id: m.member_id for m in members.values() if m.is_static
    }
    assert group.pending_sync_members <= members.keys()
    assert not group.pending_members.keys() & members.keys()
    assert (group.leader_id is None) == (not members)
    assert group.leader_id is None or group.leader_id in members
    support = Counter(p.name for m in members.values() for p in m.protocols)
    assert not members or any(count == len(members) for count in support.values())
    assert (group.join_timer.is_scheduled) == (group.state is GroupState.PREPARING_REBALANCE)
    assert (group.sync_timer.is_scheduled) == bool(group.pending_sync_members)
    if group.state is GroupState.EMPTY:
        assert not members
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        assert members
        assert group.protocol_name is not None
    if group.state is not GroupState.COMPLETING_REBALANCE:
        assert all(m.awaiting_sync is None for m in members.values())
    for member in members.values():
        watched = member.session_timer.is_scheduled
        assert watched or member.awaiting_join is not None or member.awaiting_sync is not None


def view(harness: Harness) -> dict[str, object]:
    """All that the log must bring back."""
    found: dict[str, object] = {}
    for group in harness.machine.groups:
        found[group.group_id] = (
            group.state,
            group.generation_id,
            group.protocol_type,
            group.protocol_name,
            group.leader_id,
            group.subscribed_topics,
            # What is in memory only is not brought back.
            {k: v._replace(since_ms=NOT_SEEN) for k, v in group.offsets.snapshot().items()},
            {m.member_id: (m.group_instance_id, m.assignment) for m in group.members.values()},
        )
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("with_failures", [False, True])
def test_random_runs(seed: int, with_failures: bool) -> None:
    world = World(seed, with_failures=with_failures)
    for _ in range(STEPS):
        world.step()
    world.settle()
    unanswered = [call.name for call in world.harness.calls if call.is_waiting]
    assert unanswered == []
    # All sessions are over by now, so the only timer left is that of the offsets' expiry.
    assert all(group.state is GroupState.EMPTY for group in world.harness.machine.groups)
    core = world.harness.machine._core
    assert len(core.timers) == 1
    deadline_ms = core.expiry_timer.deadline_ms
    interval_ms = world.harness.config.offsets_retention_check_interval_ms
    assert (deadline_ms - START_MS) % interval_ms == 0


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_restart_brings_back_what_was_acknowledged(seed: int) -> None:
    world = World(seed, with_failures=False)
    harness = world.harness
    for _ in range(4):
        for _ in range(STEPS // 4):
            world.step()
        harness.is_holding = False
        harness.release()
        world.twin.settle()
        for _ in range(40):  # give rebalances a chance to end
            for client in world.clients:
                client.step()
                world.twin.settle()
                world.check()
            harness.advance(200)
        stored = {
            name: value
            for name, value in view(harness).items()
            if harness.group(name).state in (GroupState.STABLE, GroupState.EMPTY)
            and (harness.group(name).generation_id > 0 or harness.group(name).offsets)
        }
        harness.restart()
        again = view(harness)
        for name, value in stored.items():
            assert again.get(name) == value, f"seed {seed}"
        world.seen.clear()
        world.generations.clear()
        for call in harness.calls:
            if call.is_waiting:
                call.answers.append(None)  # its connection went with the broker
        for client in world.clients:
            client.joining = client.syncing = None
            client.generation_id = -1
        world.check()
