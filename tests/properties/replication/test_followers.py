"""Random histories of three replicas: elections clean and not, crashes, followers that lag.

The twin of truncation is as dumb as can be: two logs, record by record with their epochs, agree up
to their first difference. Whatever the epochs say to each other,
- a follower never drops what agrees with its leader, at any step;
- once it has caught up, the logs are the same, byte for byte;
- with clean elections, what a leader had below its HW is in the log of every later leader, at the
  same offsets; no HW of a leader goes back while it leads.
"""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.records.batch import read_records
from pybroker_kafka.replication.follower_steps import FetcherConfig
from pybroker_kafka.storage.log import Log
from tests.support.followers import Nodes, content, history
from tests.support.replication import KEY

BROKERS = (1, 2, 3)
LAG_LIMIT_MS = 30_000

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), st.integers(1, 3)),
        st.tuples(st.just("produce"), st.integers(1, 3)),
        st.tuples(st.just("follow"), st.sampled_from(BROKERS)),
        st.tuples(st.just("follow"), st.sampled_from(BROKERS)),
        st.tuples(st.just("follow"), st.sampled_from(BROKERS)),
        st.tuples(
            st.just("elect"),
            st.integers(0, 2),
            st.sets(st.sampled_from(BROKERS)),
            st.integers(0, 2),
        ),
        st.tuples(st.just("shrink")),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("restart"), st.sampled_from(BROKERS)),
        st.tuples(st.just("time"), st.sampled_from([10, 1000])),
    ),
    max_size=40,
)


def epochs_by_offset(log: Log) -> dict[int, int]:
    """The epoch of each record, from the batches themselves and not from the epoch cache."""
    epochs = {}
    batches = history(log)
    ends = [*(base for base, _ in batches), log.log_end_offset][1:]
    for (base, epoch), end in zip(batches, ends, strict=True):
        epochs.update(dict.fromkeys(range(base, end), epoch))
    return epochs


def common_end(follower: Log, leader: Log) -> int:
    """Where the records that both have stop to be the same ones; 0 if they share no offset, differ
    from the first one on, or the follower holds only what its leader has deleted."""
    mine, other = epochs_by_offset(follower), epochs_by_offset(leader)
    offset = start = max(follower.log_start_offset, leader.log_start_offset)
    end = min(follower.log_end_offset, leader.log_end_offset)
    while offset in mine and mine[offset] == other.get(offset):
        offset += 1
    shares_none = offset == start and (start < end or bool(mine))
    return 0 if start > end or shares_none else offset


class Scenario:
    def __init__(self, directory: Path, *, truncates_on_fetch: bool, unclean: bool) -> None:
        self.nodes = Nodes(
            directory, BROKERS, fetcher=FetcherConfig(truncates_on_fetch=truncates_on_fetch)
        )
        self.unclean = unclean
        self.produced = 0
        self.committed: dict[int, bytes] = {}
        self.nodes.elect(1)

    def produce(self, count: int) -> None:
        values = [b"%d" % (self.produced + index) for index in range(count)]
        self.produced += count
        self.nodes.produce(*values)

    def follow(self, broker: int) -> None:
        nodes = self.nodes
        if broker == nodes.leader_id:
            return
        log = nodes[broker].log
        # It may not have heard of the last leader yet.
        source = nodes[nodes[broker].manager.partitions[KEY].leader_id]
        agreed = common_end(log, source.log)
        nodes.step(broker)
        assert log.log_end_offset >= agreed
        nodes.answer_proposals()

    def elect(self, choice: int, told: set[int], count: int) -> None:
        """A new leader; not all hear of it at once, but the leader itself does, and appends."""
        nodes = self.nodes
        members = BROKERS if self.unclean else sorted(nodes.isr)
        leader = members[choice % len(members)]
        isr = [leader] if self.unclean else nodes.isr
        nodes.elect(leader, isr, told=sorted(told | {leader}))
        if count:
            self.produce(count)

    def delete(self, tenths: int) -> None:
        """DeleteRecords, up to some part of what is committed; it may be inside of a batch."""
        manager = self.nodes.leader.manager
        log = self.nodes.leader.log
        offset = log.log_start_offset + (log.high_watermark - log.log_start_offset) * tenths // 9
        manager.offsets.delete_records("d", {KEY: offset}, 0, self.nodes.now_ms)

    def shrink(self) -> None:
        """Whoever has not kept up for a long time is taken out of the ISR."""
        nodes = self.nodes
        nodes.pass_time(LAG_LIMIT_MS + 1)
        nodes.leader.manager.isr_changes.maybe_shrink(nodes.now_ms)
        nodes.leader.settle()
        nodes.answer_proposals()

    def restart(self, broker: int) -> None:
        """The controller takes it out of the ISR and gives its leadership to the next member."""
        nodes = self.nodes
        nodes.crash(broker)
        isr = [member for member in nodes.isr if member != broker] or [broker]
        leader = nodes.leader_id if nodes.leader_id != broker else isr[0]
        if leader == broker:
            nodes.start(broker)
        nodes.elect(leader, isr, told=[leader])
        if leader != broker:
            nodes.start(broker)
            nodes.tell(broker)

    def time(self, delta_ms: int) -> None:
        self.nodes.pass_time(delta_ms)

    def check(self, hw_before: tuple[int, int, int]) -> None:
        leader = self.nodes.leader
        epoch_and_hw = self.reign()
        if hw_before[:2] == epoch_and_hw[:2]:
            assert epoch_and_hw[2] >= hw_before[2]
        for node in self.nodes.nodes.values():
            assert node.log.high_watermark <= node.log.log_end_offset
        if not self.unclean:
            values = self.values(leader.log)
            start = leader.log.log_start_offset
            for offset, value in self.committed.items():
                assert offset < start or values[offset] == value
            high_watermark = leader.log.high_watermark
            self.committed.update({o: v for o, v in values.items() if o < high_watermark})

    def reign(self) -> tuple[int, int, int]:
        nodes = self.nodes
        return nodes.leader_epoch, id(nodes.leader), nodes.leader.log.high_watermark

    @staticmethod
    def values(log: Log) -> dict[int, bytes]:
        return {record.offset: bytes(record.value or b"") for record in read_records(content(log))}

    def settle(self) -> None:
        """All hear of the last leader and catch up with it."""
        nodes = self.nodes
        for broker in BROKERS:
            if nodes[broker].manager.partitions[KEY].leader_epoch < nodes.leader_epoch:
                nodes.tell(broker)
        self.produce(1)
        for broker in BROKERS:
            if broker != nodes.leader_id:
                nodes.catch_up(broker)
        leader = nodes.leader.log
        for broker in BROKERS:
            log = nodes[broker].log
            # An earlier leader may have deleted more than the last one has heard of.
            start = log.log_start_offset
            assert start >= leader.log_start_offset
            assert log.log_end_offset == leader.log_end_offset
            assert common_end(log, leader) == leader.log_end_offset
            assert log.leader_epochs.latest_epoch == leader.leader_epochs.latest_epoch
            if start == leader.segments.first.base_offset == log.segments.first.base_offset:
                assert content(log) == content(leader)
            ours, theirs = self.values(log), self.values(leader)
            assert {o: v for o, v in ours.items() if o >= start} == {
                o: v for o, v in theirs.items() if o >= start
            }


@settings(max_examples=100, deadline=None)
@given(steps=_STEPS, truncates_on_fetch=st.booleans(), unclean=st.booleans())
@example(  # the crash takes the log start back, below the first epoch that the leader remembers
    steps=[
        ("produce", 1),
        ("elect", 1, set(), 0),
        ("shrink",),
        ("produce", 3),
        ("delete", 3),
        ("restart", 2),
    ],
    truncates_on_fetch=False,
    unclean=False,
)
@example(  # a log shares nothing with its leader's, which begins behind the first difference
    steps=[
        ("produce", 1),
        ("produce", 1),
        ("restart", 1),
        ("produce", 1),
        ("produce", 1),
        ("elect", 0, {1, 2}, 0),
        ("delete", 5),
        ("follow", 2),
    ],
    truncates_on_fetch=False,
    unclean=True,
)
@example(  # a log comes back with a record that its next leader has deleted
    steps=[
        ("elect", 0, set(), 1),
        ("restart", 2),
        ("follow", 2),
        ("delete", 9),
        ("follow", 2),
        ("restart", 1),
        ("follow", 1),
    ],
    truncates_on_fetch=False,
    unclean=True,
)
def test_logs_agree_after_any_history(
    steps: list[tuple[Any, ...]], truncates_on_fetch: bool, unclean: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        scenario = Scenario(Path(directory), truncates_on_fetch=truncates_on_fetch, unclean=unclean)
        for name, *arguments in steps:
            before = scenario.reign()
            getattr(scenario, name)(*arguments)
            scenario.check(before)
        scenario.settle()
        scenario.nodes.release()
