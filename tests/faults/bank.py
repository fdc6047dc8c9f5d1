"""The bank under faults: transactions stay correct through random faults.

    python -m tests.faults.bank [--moments 50] [--seed N] [--clients pybroker,java]
                                [--zookeeper members]

At each moment a client, a leader, the transaction coordinator, the group coordinator or the
controller is killed or frozen, and comes back. A client may also be frozen while a new process
takes over its transactional id; it then wakes up as a zombie, which must be fenced. With
`--zookeeper members` the cluster is on an ensemble of ours: the member that leads or another is
killed or frozen, too, alone or in the same moment as a broker. After each fault every client must
commit again. At the end the accounts are audited (tests/support/bank.py).
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from tests.support.bank import Bank
from tests.support.bank_terms import GROUP, LEDGER, PARTITIONS
from tests.support.cluster import Cluster, cluster
from tests.support.terminated import clean_up_when_terminated

MAX_SEED = 2**32
TRANSACTION_KEY = 1
GROUP_KEY = 0
COMMITS_A_MOMENT = 2
STANDSTILLS_SECONDS = (0.3, 2.0, 5.5)
ALL_TELLERS = ("confluent", "kafka-python", "java", "pybroker")
ALL_CLERKS = ("confluent", "kafka-python", "pybroker")
CONFIG = {
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.min.session.timeout.ms": "1000",
}


@dataclass
class Result:
    moments: Counter[str] = field(default_factory=Counter)
    committed: int = 0
    aborted: int = 0
    unknown: int = 0
    receipts: int = 0
    fenced: int = 0
    stuck: int = 0
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)
    story: Sequence[str] = ()

    def summary(self) -> str:
        return (
            f"{sum(self.moments.values())} moments in {self.seconds:.0f} s: "
            f"{self.committed} transactions committed, {self.aborted} aborted, {self.unknown} of "
            f"unknown outcome; {self.receipts} orders counted; {self.fenced} zombies fenced; "
            f"{self.stuck} stuck clients replaced; "
            f"{len(self.broken)} promises broken"
        )


class Trouble:
    """Makes moments of trouble for a bank."""

    def __init__(self, bank: Bank, chance: random.Random) -> None:
        self.bank = bank
        self.cluster = bank.cluster
        self.chance = chance

    def coordinator(self, key: str, key_type: int) -> int:
        def found() -> int | None:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            (one,) = self.cluster.ask_any(request, 4).coordinators
            return one.node_id if one.node_id in self.cluster.serving else None

        return self.cluster.wait_for(found, f"a coordinator of {key}")

    def node(self, what: str) -> int:
        if what == "leader":
            return self.cluster.leader(LEDGER, self.chance.randrange(PARTITIONS))
        if what == "transaction coordinator":
            return self.coordinator(self.chance.choice(list(self.bank.roles)), TRANSACTION_KEY)
        if what == "group coordinator":
            return self.coordinator(GROUP, GROUP_KEY)
        return self.cluster.controller()

    def kill_node(self, what: str) -> None:
        node = self.node(what)
        self.cluster.kill(node)
        time.sleep(self.chance.choice((0.0, 0.5, 2.0)))
        self.cluster.start(node)

    def pause_node(self, what: str) -> None:
        node = self.node(what)
        self.cluster.pause(node)
        time.sleep(self.chance.choice(STANDSTILLS_SECONDS))
        self.cluster.resume(node)

    def member(self, what: str) -> int:
        """The place of the member that leads, or of one that does not."""
        leader = self.cluster.leading_member()
        others = [place for place in self.cluster.zookeeper_places if place != leader]
        return leader if what == "leader" else self.chance.choice(others)

    def kill_member(self, what: str) -> None:
        member = self.member(what)
        self.cluster.kill_member(member)
        time.sleep(self.chance.choice((0.0, 2.0, 5.5)))
        self.cluster.start_member(member)

    def pause_member(self, what: str) -> None:
        member = self.member(what)
        self.cluster.pause_member(member)
        time.sleep(self.chance.choice(STANDSTILLS_SECONDS))
        self.cluster.resume_member(member)

    def kill_both(self, what: str) -> None:
        """The member that leads, and a broker."""
        member, node = self.member("leader"), self.node(what)
        self.cluster.kill_member(member)
        self.cluster.kill(node)
        time.sleep(self.chance.choice((0.0, 2.0)))
        self.cluster.start(node)
        self.cluster.start_member(member)

    def kill_client(self) -> None:
        name = self.chance.choice(list(self.bank.roles))
        self.cluster.tell(f"{name} killed")
        self.bank.current(name).kill()

    def pause_client(self) -> None:
        """Longer than its transaction may take, at times: then it is fenced by time."""
        name = self.chance.choice(list(self.bank.roles))
        client = self.bank.current(name)
        if not client.is_running:
            return
        client.pause()
        self.cluster.tell(f"{name} paused")
        time.sleep(self.chance.choice((0.5, 8.0)))
        client.resume()

    def zombie(self) -> None:
        """Two of one name: the earlier wakes up in the middle of what it did."""
        name = self.chance.choice([n for n in self.bank.roles if n.startswith("teller")])
        client = self.bank.current(name)
        if not client.has_begun or not client.is_running:
            return
        client.pause()
        self.cluster.tell(f"{name} paused, and another life begins")
        successor = self.bank.begin_life(name)
        self.cluster.wait_for(
            lambda: successor.committed > 0 or not successor.is_running, "its first commit"
        )
        client.resume()
        self.bank.zombies.append(client)
        self.cluster.wait_for(lambda: not client.is_running, "the zombie's end")

    def moments(self) -> dict[str, Callable[[], None]]:
        found: dict[str, Callable[[], None]] = {
            "client killed": self.kill_client,
            "client paused": self.pause_client,
            "zombie": self.zombie,
        }
        for what in ("leader", "transaction coordinator", "group coordinator", "controller"):
            found[f"{what} killed"] = lambda w=what: self.kill_node(w)  # type: ignore[misc]
            found[f"{what} paused"] = lambda w=what: self.pause_node(w)  # type: ignore[misc]
        return found | (self.moments_of_members() if self.cluster.has_members else {})

    def moments_of_members(self) -> dict[str, Callable[[], None]]:
        return {
            "ZooKeeper leader killed": lambda: self.kill_member("leader"),
            "ZooKeeper leader paused": lambda: self.pause_member("leader"),
            "ZooKeeper follower killed": lambda: self.kill_member("follower"),
            "ZooKeeper follower paused": lambda: self.pause_member("follower"),
            "ZooKeeper leader and transaction coordinator killed": lambda: self.kill_both(
                "transaction coordinator"
            ),
            "ZooKeeper leader and controller killed": lambda: self.kill_both("controller"),
        }


def in_sync(running: Cluster) -> None:
    for topic in (LEDGER, "__transaction_state", "__consumer_offsets"):
        running.wait_for_isr(topic)


def play(
    directory: Path,
    seed: int,
    moments: Sequence[str] | int,
    tellers: Sequence[str] = ALL_TELLERS,
    clerks: Sequence[str] = ALL_CLERKS,
    readers: Sequence[str] = ALL_CLERKS,
    tell: Callable[[str], None] = lambda _: None,
    zookeeper: str = "embedded",
) -> Result:
    """Named moments, or so many random ones."""
    result = Result()
    started = time.monotonic()
    chance = random.Random(seed)
    with cluster(directory, zookeeper, CONFIG) as running:
        bank = Bank(running, tellers, clerks, readers)
        running.at_close(bank.close)
        try:
            bank.open()
            running.wait_for(bank.progress(COMMITS_A_MOMENT), "the first commits")
            trouble = Trouble(bank, chance)
            known = trouble.moments()
            if isinstance(moments, int):
                moments = [chance.choice(list(known)) for _ in range(moments)]
            for number, moment in enumerate(moments, 1):
                time.sleep(chance.uniform(0, 0.5))
                tell(f"{time.monotonic() - started:6.1f} s  {number}: {moment}")
                known[moment]()
                result.moments[moment] += 1
                running.wait_for(bank.progress(COMMITS_A_MOMENT), "commits of all")
                in_sync(running)
            bank.settle()
            result.broken = bank.audit()
        except Exception as error:
            result.broken.append(f"{type(error).__name__}: {error}")
            result.broken += traceback.format_tb(error.__traceback__)[-2:]
            for name, lives in bank.lives.items():
                result.broken += [f"{name}: {life.lines()[-3:]}" for life in lives[-1:]]
            result.broken += bank.unread()
        finally:
            bank.close()
            outcomes = Counter(bank.outcomes().values())
            result.committed, result.aborted = outcomes["c"], outcomes["a"]
            result.unknown = outcomes["u"]
            result.receipts = len(bank.readers[0].books.receipts) if bank.readers else 0
            result.fenced = sum(zombie.was_fenced for zombie in bank.zombies)
            result.stuck = bank.stuck
            result.seconds = time.monotonic() - started
            result.story = running.story
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.bank",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--moments", type=int, default=50, help="number of faults")
    parser.add_argument("--seed", type=int, default=random.randrange(MAX_SEED))
    parser.add_argument(
        "--clients", default=",".join(ALL_TELLERS), help="clients that run, separated by commas"
    )
    parser.add_argument("--zookeeper", choices=["embedded", "members"], default="embedded")
    arguments = parser.parse_args()
    clean_up_when_terminated()
    clients = arguments.clients.split(",")
    directory = Path(tempfile.mkdtemp(prefix="bank-"))
    print(f"seed {arguments.seed}, in {directory}", flush=True)
    result = play(
        directory,
        arguments.seed,
        arguments.moments,
        [kind for kind in ALL_TELLERS if kind in clients],
        [kind for kind in ALL_CLERKS if kind in clients],
        tell=lambda what: print(f"  {what}", flush=True),
        zookeeper=arguments.zookeeper,
    )
    for what, count in sorted(result.moments.items()):
        print(f"{count:4} {what}")
    print(result.summary())
    if result.broken:
        print("\n".join([*result.broken, "the story:", *result.story]))
        return 1
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
