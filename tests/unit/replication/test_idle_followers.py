"""A follower that has all and fetches on: the leader's short way, and when it has to leave it."""

from pathlib import Path

from tests.support.followers import Nodes
from tests.support.replication import KEY


def test_idle_partitions_are_answered_shortly_but_heard(tmp_path: Path) -> None:
    """The short way of a caught-up follower's fetch keeps it caught up, and ends with any news."""
    nodes = Nodes(tmp_path, (1, 2))
    nodes.elect(1)
    nodes.produce()
    nodes.catch_up(2)
    partition = nodes.leader.manager.partitions[KEY]
    replica = partition.remotes[2]
    before = partition.stats.fetch_requests
    for _ in range(3):
        nodes.pass_time(40_000)
        nodes.step(2)
        assert nodes.now_ms - replica.last_caught_up_ms < 1_000
    assert partition.stats.fetch_requests == before + 3
    nodes.leader.manager.isr_changes.maybe_shrink(nodes.now_ms)
    assert partition.isr.proposed is None
    nodes.leader.manager.offsets.delete_records("d", {KEY: 1}, 1000, nodes.now_ms)
    nodes.step(2)
    assert nodes[2].log.log_start_offset == 1
    nodes.leader.manager.leadership.broker_epoch = 5
    nodes[2].manager.leadership.broker_epoch = 7
    nodes.step(2)
    nodes.step(2)
    assert replica.broker_epoch == 7
