"""What goes wrong, and when: drawn from the seed, within what Kafka promises to survive.

Anything may happen to processes, connections and sessions, to all brokers at once. A power cut is
another matter: Kafka answers before a disk has the bytes and trusts the other replicas. So, unless
the topic flushes (flush.messages=1), power goes only while another member of the ISR is well, no
ISR change is on its way, and nothing else happens to anybody until the controller has taken the
loser out of the ISR; then it may come back.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.protocol.zookeeper.operations import Delete
from pybroker_kafka.replication.controller import znodes
from pybroker_kafka.storage.segment_reader import LOG_SUFFIX
from tests.simulation.disk import Disk
from tests.simulation.kernel import Process
from tests.simulation.zookeeper import NAME as ZOOKEEPER

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.cluster import Cluster

CONTROLLED_SHUTDOWN_VERSION = 3
REASSIGNMENTS_VERSION = 0
CALM_MS = 1_000
FRAGILE_CHECK_MS = 50
CLOCKS_WEIGHT = 4
_DAY_MS = 86_400_000
# By how much a wall clock is set, in either direction.
CLOCK_STEPS_MS = (2_000, 60_000, 3_600_000, 10 * _DAY_MS, 400 * _DAY_MS, 20 * 365 * _DAY_MS)


class Faults:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._kernel = cluster.kernel
        self._is_over = False
        # A broker that lost power and is still in an ISR.
        self.fragile: Broker | None = None
        self._last_disturbance_ms = 0
        # Those that have announced their stop: they will, whatever the answer is.
        self._stopping: set[Process] = set()
        # In the order of the weights below.
        self._kinds: list[tuple[Callable[[], None], int]] = [
            (self._kill, 6),
            (self._kill_leader, 4),
            (self._cut_power, 5),
            (self._pause, 4),
            (self._cut_link, 6),
            (self._cut_from_zookeeper, 4),
            (self.break_connections, 5),
            (self._move_controller, 3),
            (self._shut_down, 3),
            (self._stop_zookeeper, 1),
            (self._slow_network, 2),
            (self._kill_all, 1),
            (self._step_clock, CLOCKS_WEIGHT),
        ]
        if cluster.settings.reassigns:
            self._kinds.append((self._reassign, 6))

    def add(self, kind: Callable[[], None], weight: int) -> None:
        """Something more that may go wrong, in this kind of cluster."""
        self._kinds.append((kind, weight))

    def start(self) -> None:
        self._later()

    def end(self) -> None:
        """No more faults; all that is broken mends."""
        self._is_over = True
        cluster, kernel = self._cluster, self._kernel
        cluster.network.mend_all()
        cluster.network.usual_delay_ms = 3
        kernel.resume(cluster.zookeeper.process)
        for broker in cluster.brokers.values():
            broker.clock_ahead_ms = 0
            if broker.process.paused:
                kernel.resume(broker.process)
            if not broker.process.alive and broker is not self.fragile:
                kernel.after(0, None, self._restart, broker)

    # The schedule

    def _later(self) -> None:
        pause_ms = self._kernel.random.randint(20, 2 * self._cluster.settings.fault_pause_ms)
        self._kernel.after(pause_ms, None, self._next)

    def _next(self) -> None:
        if self._is_over:
            return
        self._later()
        kinds, weights = zip(*self._kinds, strict=True)
        (kind,) = self._kernel.random.choices(kinds, weights)
        if self.fragile is None:
            kind()

    def _for(self, low_ms: int, high_ms: int, mend: Callable[..., None], *args: object) -> None:
        self._kernel.after(self._kernel.random.randint(low_ms, high_ms), None, mend, *args)

    def _note(self, text: str) -> None:
        self._kernel.note(f"FAULT {text}")
        self._last_disturbance_ms = self._kernel.now_ms

    def _alive(self) -> "list[Broker]":
        return [b for b in self._cluster.brokers.values() if b.process.alive]

    def _any_alive(self) -> "Broker | None":
        alive = self._alive()
        return self._kernel.random.choice(alive) if alive else None

    # Processes

    def _kill(self) -> None:
        broker = self._any_alive()
        if broker is not None:
            self._kill_one(broker)

    def _kill_leader(self) -> None:
        state = self._cluster.audit.ledger(self._cluster.keys[0]).state
        if state is not None and state.leader >= 0:
            broker = self._cluster.brokers[state.leader]
            if broker.process.alive:
                self._kill_one(broker)

    def _kill_one(self, broker: "Broker") -> None:
        self._note(f"SIGKILL {broker.name}")
        self._stopping.discard(broker.process)
        broker.kill()
        self._for(50, 4_000, self._restart, broker)

    def _kill_all(self) -> None:
        for broker in self._alive():
            self._kill_one(broker)

    def _restart(self, broker: "Broker") -> None:
        if not broker.process.alive and broker is not self.fragile:
            self._last_disturbance_ms = self._kernel.now_ms
            broker.start()

    def _pause(self) -> None:
        broker = self._any_alive()
        if broker is not None and not broker.process.paused:
            self._note(f"SIGSTOP {broker.name}")
            self._kernel.pause(broker.process)
            self._for(300, 6_000, self._resume, broker, broker.process.generation)

    def _resume(self, broker: "Broker", generation: int) -> None:
        process = broker.process
        if process.paused and process.generation == generation:
            self._note(f"SIGCONT {broker.name}")
            self._kernel.resume(process)

    def _shut_down(self) -> None:
        """A clean stop: leaderships are handed over, logs are closed."""
        broker = self._any_alive()
        if broker is None or not broker.is_serving or broker.process.paused:
            return
        metadata = broker.manager.metadata
        if metadata.controller_id not in self._cluster.brokers:
            return
        self._note(f"controlled shutdown of {broker.name}")
        self._stopping.add(broker.process)
        request = ControlledShutdownRequest(
            broker_id=broker.broker_id, broker_epoch=broker.manager.leadership.broker_epoch
        )
        broker.call(
            metadata.controller_id, request, CONTROLLED_SHUTDOWN_VERSION,
            lambda answer: self._handed_over(broker, answer),
        )  # fmt: skip

    def _handed_over(self, broker: "Broker", answer: ControlledShutdownResponse | None) -> None:
        self._stopping.discard(broker.process)
        outcome = "none" if answer is None else ErrorCode(answer.error_code).name
        self._note(f"{broker.name} stops cleanly (answer of the controller: {outcome})")
        broker.stop_cleanly()
        self._for(50, 3_000, self._restart, broker)

    # Power

    def _cut_power(self) -> None:
        broker = self._any_alive()
        if broker is None:
            return
        cluster = self._cluster
        if not cluster.settings.flushes and not self._is_safe_without(broker):
            return
        self._note(f"power cut at {broker.name}")
        self._stopping.discard(broker.process)
        broker.kill()
        lost = broker.disk.lose_power(partial(self._loss, broker.disk))
        self._kernel.note(f"{broker.name} has lost parts of {len(lost)} files")
        cluster.cut_power.add(broker.broker_id)
        if cluster.settings.flushes:
            self._for(50, 4_000, self._restart, broker)
            return
        for ledger in cluster.audit.ledgers.values():
            if ledger.state is not None and broker.broker_id in ledger.state.isr:
                ledger.lossy.add(broker.broker_id)
        self.fragile = broker
        self._kernel.after(FRAGILE_CHECK_MS, None, self._check_fragile)

    def _loss(self, disk: Disk, path: str, unsynced: int) -> tuple[str, int]:
        """Any part of what was not synced; a tail of a segment often just between two batches."""
        random = self._kernel.random
        how = random.choice(("cut", "cut", "zero", "hole"))
        if how == "cut" and path.endswith(LOG_SUFFIX) and random.random() < 0.5:
            data = disk.inodes[path].data
            ends = [
                position + header.size_in_bytes for position, header in iter_batch_headers(data)
            ]
            tails = [len(data) - end for end in ends if len(data) - end <= unsynced]
            if tails:
                return how, random.choice(tails)
        if how == "hole" and path.endswith("index"):
            how = "zero"  # a disk does not lose the half of an entry
        return how, random.randint(0, unsynced)

    def _is_safe_without(self, broker: "Broker") -> bool:
        cluster = self._cluster
        if self._kernel.now_ms - self._last_disturbance_ms < CALM_MS:
            return False
        if (
            self._stopping
            or len(self._alive()) < len(cluster.brokers)
            or cluster.zookeeper.process.paused
        ):
            return False
        if not all(self._is_well(other) for other in cluster.brokers.values()):
            return False
        if any(cluster.assignment_of(key).is_being_reassigned for key in cluster.keys):
            return False
        for ledger in cluster.audit.ledgers.values():
            isr = set(ledger.state.isr) if ledger.state is not None else set()
            if not isr - {broker.broker_id} or ledger.lossy:
                return False
        return True

    def _is_well(self, broker: "Broker") -> bool:
        is_up = self._cluster.network.is_up(broker.name, ZOOKEEPER)
        return (
            not broker.process.paused
            and broker.is_serving
            and is_up
            and broker.session.is_connected
            and broker.is_controller_idle
            and not any(p.isr.is_in_flight for p in broker.manager.partitions.values())
        )

    def _check_fragile(self) -> None:
        broker = self.fragile
        assert broker is not None
        if any(broker.broker_id in one.lossy for one in self._cluster.audit.ledgers.values()):
            self._kernel.after(FRAGILE_CHECK_MS, None, self._check_fragile)
            return
        self.fragile = None
        if self._is_over:
            self._restart(broker)
        else:
            self._for(0, 3_000, self._restart, broker)

    # Clocks

    def _step_clock(self) -> None:
        """A broker's wall clock is set; it is set right after a while, or at the end. Most brokers
        look at it in their next turn."""
        random = self._kernel.random
        broker = random.choice(list(self._cluster.brokers.values()))
        step_ms = random.choice(CLOCK_STEPS_MS) * random.choice((1, -1))
        self._kernel.note(f"FAULT the clock of {broker.name} is set by {step_ms} ms")
        broker.clock_ahead_ms += step_ms
        if broker.process.alive and random.random() < 0.5:
            broker.look_at_clock()
        if random.random() < 0.7:
            self._for(200, 4_000, self._set_clock_right, broker)

    def _set_clock_right(self, broker: "Broker") -> None:
        self._kernel.note(f"the clock of {broker.name} is right again")
        broker.clock_ahead_ms = 0

    # Network and ZooKeeper

    def _pair(self) -> tuple[str, str]:
        one, other = self._kernel.random.choice(
            list(combinations(self._cluster.brokers.values(), 2))
        )
        return one.name, other.name

    def _cut_link(self) -> None:
        one, other = self._pair()
        self._note(f"no network between {one} and {other}")
        self._cluster.network.cut(one, other)
        self._for(200, 5_000, self._mend_link, one, other)

    def _mend_link(self, one: str, other: str) -> None:
        self._kernel.note(f"network between {one} and {other} again")
        self._cluster.network.mend(one, other)

    def break_connections(self) -> None:
        one, other = self._pair()
        self._note(f"connections between {one} and {other} are reset")
        self._cluster.network.break_connections(one, other)

    def _cut_from_zookeeper(self) -> None:
        broker = self._any_alive()
        if broker is not None:
            self._note(f"no network between {broker.name} and ZooKeeper")
            self._cluster.network.cut(broker.name, ZOOKEEPER)
            self._for(200, 5_000, self._mend_link, broker.name, ZOOKEEPER)

    def isolate_leader(self, key: TopicPartition) -> None:
        """A partition's leader loses its session and does not hear of it, but others hear it."""
        state = self._cluster.audit.ledger(key).state
        if state is None or state.leader < 0:
            return
        name = self._cluster.brokers[state.leader].name
        self._note(f"{name}, the leader of {key[0]}, is cut off from ZooKeeper")
        self._cluster.network.cut(name, ZOOKEEPER)
        session_ms = self._cluster.settings.session_timeout_ms
        self._for(session_ms + 1_000, session_ms + 4_000, self._mend_link, name, ZOOKEEPER)

    def _stop_zookeeper(self) -> None:
        self._note("ZooKeeper stops")
        self._kernel.pause(self._cluster.zookeeper.process)
        self._for(300, 4_000, self._resume_zookeeper)

    def _resume_zookeeper(self) -> None:
        self._note("ZooKeeper goes on")
        self._kernel.resume(self._cluster.zookeeper.process)

    def _slow_network(self) -> None:
        self._note("the network is slow")
        self._cluster.network.usual_delay_ms = self._kernel.random.choice((30, 120))
        self._for(500, 2_000, self._normal_network)

    def _normal_network(self) -> None:
        self._cluster.network.usual_delay_ms = 3

    def _reassign(self) -> None:
        """Other replicas, or another order of them; now and then the cancellation of that."""
        cluster, random = self._cluster, self._kernel.random
        controllers = [b for b in cluster.brokers.values() if b.controller.machine.is_active]
        if not controllers:
            return
        topic, index = random.choice(cluster.keys)
        factor = cluster.settings.replication_factor
        replicas = random.sample(list(cluster.brokers), factor) if random.random() < 0.8 else None
        self._note(f"reassignment of {topic}-{index} to {replicas}")
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
                )
            ]
        )
        cluster.call_as_admin(random.choice(controllers), request, REASSIGNMENTS_VERSION)

    def reset(self, client: Process) -> None:
        """All connections of a client are reset; what is under way may still arrive."""
        self._note(f"the connections of {client.name} are reset")
        for broker in self._cluster.brokers.values():
            self._cluster.network.break_connections(client.name, broker.name)

    def _move_controller(self) -> None:
        self._note("/controller is deleted")
        self._cluster.admin.execute([Delete(znodes.CONTROLLER)], lambda _results: None)
