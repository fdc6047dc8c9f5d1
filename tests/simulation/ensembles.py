"""Ensembles of ZooKeeper members in virtual time: a seed decides kills, power cuts, partitions.

The members are the real machines (`zookeeper.quorum.member`); their disks, their network and their
clients are `ensemble_disk`, `ensemble_network` and `ensemble_clients`. What must hold is checked by
the clients, by `ensemble_register` and by `ensemble_checks`.

    python -m tests.simulation.ensembles --seeds 100 [--first 1] [--plant NAME]
"""

import argparse
import random
import sys
from functools import partial

from pybroker_kafka.zookeeper.passwords import member_password
from pybroker_kafka.zookeeper.quorum.ensemble_machine import EnsembleMachine
from pybroker_kafka.zookeeper.quorum.leader import Leader, Limits
from pybroker_kafka.zookeeper.quorum.member import EnsembleSpec, Member
from pybroker_kafka.zookeeper.sessions import SessionTable
from tests.simulation.ensemble_checks import Checks
from tests.simulation.ensemble_clients import Clients, SimClient
from tests.simulation.ensemble_network import Network
from tests.simulation.ensemble_register import Violation
from tests.simulation.ensemble_world import START_MS, Node, World

LIMITS = Limits(tick_ms=100, init_limit=20, sync_limit=6)
CHAOS_MS = 15_000
CALM_MS = 30_000
PLANTS = ("ack_before_fsync", "commit_without_quorum", "wrong_truncation", "sync_without_leader")


class Ensemble(World):
    def __init__(
        self, seed: int, *, voters: int = 3, observers: int = 0, plant: str | None = None
    ) -> None:
        super().__init__(seed, voters + observers, plant)
        self.voters = frozenset(range(1, voters + 1))
        self.network = Network(self)
        self.clients = Clients(self)
        self.checks = Checks(self, self.clients)

    def play(self) -> None:
        for node in self.nodes.values():
            self.start(node)
        self.clients.start()
        self.at(500, self.mishap)
        self.run_until(START_MS + CHAOS_MS)
        self.is_chaotic = False
        self.cut.clear()
        self.slow = 0
        for node in self.nodes.values():
            if node.member is None:
                self.start(node)
        self.run_until(self.now_ms + CALM_MS)
        self.checks.check_end()

    def mishap(self) -> None:
        if not self.is_chaotic:
            return
        chance = self.random
        node = chance.choice(list(self.nodes.values()))
        kind = chance.choice(
            ("kill", "kill_leader", "cut", "isolate", "heal", "snapshot", "all", "slow")
        )
        if kind == "kill_leader":
            led = [n for n in self.nodes.values() if n.member is not None and n.member.leader]
            node = led[0] if led else node
        if kind in ("kill", "kill_leader"):
            self.kill(node, power=chance.random() < 0.5)
        elif kind == "all":
            for each in self.nodes.values():
                self.kill(each, power=True)
        elif kind == "cut":
            other = chance.choice(list(self.nodes))
            if other != node.number:
                self.cut.add(frozenset((node.number, other)))
        elif kind == "isolate":
            for other in self.nodes:
                if other != node.number:
                    self.cut.add(frozenset((node.number, other)))
        elif kind == "slow":
            self.slow = node.number
        elif kind == "heal":
            self.cut.clear()
            self.slow = 0
        elif kind == "snapshot" and node.member is not None and not node.is_flushing:
            machine = node.member.machine
            node.disk.snapshot(machine.tree, machine.sessions.timeouts_ms())
        self.network.break_streams()
        self.at(chance.randrange(100, 1500), self.mishap)

    def start(self, node: Node) -> None:
        tree, sessions, recent = node.disk.load()
        table = SessionTable(LIMITS.tick_ms, member_password, self.now_ms, node.number)
        for session_id, timeout_ms in sessions.items():
            table.add(session_id, timeout_ms, self.now_ms)
        machine = EnsembleMachine(tree, table, node.number)
        spec = EnsembleSpec(node.number, self.voters, node.number not in self.voters, LIMITS)
        node.life += 1
        node.is_flushing = False
        node.timer_ms = None
        node.disk.waiting = []
        node.member = Member(spec, node.disk, machine, recent, self.now_ms)
        self.perform(node)

    def kill(self, node: Node, *, power: bool) -> None:
        if node.member is None:
            return
        node.member = None
        node.life += 1
        if not power or self.random.random() < 0.5:
            # A killed process: its system still has all writes; a power cut: some of them.
            count = (
                len(node.disk.waiting)
                if not power
                else self.random.randint(0, len(node.disk.waiting))
            )
            node.disk.flushed += node.disk.waiting[:count]
        node.disk.waiting = []
        for stream in list(node.streams.values()):
            self.at(self.random.randrange(50), partial(self.network.break_stream, stream))
        self.clients.disconnect(node)
        self.at(self.random.randrange(200, 3000), lambda: self.restart(node))

    def restart(self, node: Node) -> None:
        if node.member is None:
            self.start(node)

    def perform(self, node: Node) -> None:
        member = node.member
        if member is None:
            return
        effects = member.take_effects(self.now_ms)
        if effects.records:
            node.disk.waiting += effects.records
            if self.plant == "ack_before_fsync":
                zxid = member.machine.tree.last_zxid
                member.durable(zxid, self.now_ms)
                self.at(0, lambda: self.perform(node))
            if not node.is_flushing:
                self.flush(node)
        self.checks.watch(node, member)
        for receiver, message in effects.notifications:
            self.network.notify(node, receiver, message)
        if effects.closes_clients:
            self.clients.disconnect(node)
        for link, piece in effects.pieces:
            self.network.send(node, node.streams.get(link), piece)
        if effects.connect_to is not None:
            self.network.connect(node, effects.connect_to, node.life)
        for connection, frame in effects.frames:
            asking = connection.token
            assert isinstance(asking, SimClient)
            if asking.connection is connection and asking.is_connected:
                if frame is None:
                    asking.is_connected = False
                else:
                    self.clients.answer(asking, frame)
        self.set_timer(node)

    def set_timer(self, node: Node) -> None:
        assert node.member is not None
        deadline_ms = node.member.next_deadline_ms()
        if deadline_ms is None or (node.timer_ms is not None and node.timer_ms <= deadline_ms):
            return
        node.timer_ms = deadline_ms
        life = node.life
        self.at(max(1, deadline_ms - self.now_ms), lambda: self.wake(node, life, deadline_ms))

    def wake(self, node: Node, life: int, deadline_ms: int) -> None:
        if node.life != life or node.member is None or node.timer_ms != deadline_ms:
            return
        node.timer_ms = None
        node.member.tick(self.now_ms)
        self.perform(node)

    def flush(self, node: Node) -> None:
        member = node.member
        assert member is not None
        node.is_flushing = True
        count, zxid, life = len(node.disk.waiting), member.machine.tree.last_zxid, node.life
        delay_ms = self.random.choice((1, 2, 5, 5, 80, 300))
        self.at(delay_ms, lambda: self.flushed(node, life, count, zxid))

    def flushed(self, node: Node, life: int, count: int, zxid: int) -> None:
        if node.life != life or node.member is None:
            return
        node.disk.flushed += node.disk.waiting[:count]
        del node.disk.waiting[:count]
        node.is_flushing = False
        if self.plant != "ack_before_fsync" or not node.disk.waiting:
            node.member.durable(zxid, self.now_ms)
        if node.disk.waiting:
            self.flush(node)
        self.perform(node)


def run_seed(seed: int, plant: str | None = None) -> Ensemble:
    chance = random.Random(seed * 7919)
    check_quorum = Leader._check_quorum
    try:
        ensemble = Ensemble(
            seed,
            voters=chance.choice((3, 3, 5)),
            observers=chance.choice((0, 0, 1)),
            plant=plant,
        )
        ensemble.play()
    finally:
        Leader._check_quorum = check_quorum  # type: ignore[method-assign]
    return ensemble


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--plant", choices=PLANTS)
    options = parser.parse_args()
    failures = 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            ensemble = run_seed(seed, options.plant)
        except Exception as error:
            failures += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
            if not isinstance(error, Violation):
                raise
        else:
            acked = sum(len(client.acked) for client in ensemble.clients.all)
            register = ensemble.clients.register
            print(
                f"seed {seed}: {len(ensemble.checks.leaders)} leaders, {acked} nodes acknowledged, "
                f"register: {len(register.acked)} writes acknowledged, {register.reads} reads",
                flush=True,
            )
    print(f"{failures} of {options.seeds} seeds broke a promise")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
