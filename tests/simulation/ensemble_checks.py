"""The checks of a simulated ensemble as a whole.

All the time: one leader an epoch; a zxid has one content on all members. At the end, when all are
well again: equal trees, in memory and on disk, all acknowledged nodes, no ephemeral node without
its session.
"""

from pybroker_kafka.zookeeper.quorum.leader import Leader
from pybroker_kafka.zookeeper.quorum.member import Member
from tests.simulation.ensemble_clients import Clients, SimClient
from tests.simulation.ensemble_register import Violation
from tests.simulation.ensemble_world import Node, World


class Checks:
    def __init__(self, world: World, clients: Clients) -> None:
        self._world = world
        self._clients = clients
        self.leaders: dict[int, int] = {}  # by epoch
        self.contents: dict[int, bytes] = {}  # by zxid
        self._committed: dict[int, int] = {}  # the last zxid that was compared, by member

    def watch(self, node: Node, member: Member) -> None:
        leader = member.leader
        if leader is not None and leader.is_broadcasting:
            known = self.leaders.setdefault(leader.epoch, node.number)
            if known != node.number:
                raise Violation(f"epoch {leader.epoch} has leaders {known} and {node.number}")
            if self._world.plant == "commit_without_quorum":
                leader._voters = frozenset({node.number})
                Leader._check_quorum = lambda *_: None  # type: ignore[method-assign]
        if not member.is_serving:
            return
        for zxid, data in member.history.behind(self._committed.get(node.number, 0)):
            if zxid > member.committed_zxid:
                break
            self._committed[node.number] = zxid
            known_data = self.contents.setdefault(zxid, data)
            if known_data != data:
                raise Violation(f"{zxid:#x} has two contents, one on {node.number}")

    def check_end(self) -> None:
        trees = {}
        for node in self._world.nodes.values():
            member = node.member
            if member is None or not member.is_serving:
                states = {
                    n.number: n.member and n.member.why_looking for n in self._world.nodes.values()
                }
                raise Violation(f"member {node.number} does not serve: {states}")
            tree = member.machine.tree
            trees[node.number] = {p: (n.data, n.stat(), n.acl) for p, n in tree.nodes.items()}
            stray = tree.ephemerals.keys() - member.machine.sessions.sessions.keys()
            if stray:
                raise Violation(f"ephemeral nodes of ended sessions {stray} on {node.number}")
            loaded, _, _ = node.disk.load()
            if {p: n.stat() for p, n in loaded.nodes.items()} != {
                p: n.stat() for p, n in tree.nodes.items()
            }:
                raise Violation(f"member {node.number} has another tree on its disk")
        first = next(iter(trees.values()))
        for number, tree_of in trees.items():
            if tree_of != first:
                other = first.keys() ^ tree_of.keys()
                raise Violation(f"member {number} has another tree: {sorted(other)[:5]}")
        self._clients.register.check_versions()
        made = set(first)
        for client in self._clients.all:
            for path in client.acked:
                if path not in made:
                    self._check_ephemeral(client, path)

    def _check_ephemeral(self, client: SimClient, path: str) -> None:
        """It may be gone with its session: then two transactions name it."""
        named = len(path).to_bytes(4, "big") + path.encode()
        if sum(named in data for data in self.contents.values()) < 2:
            raise Violation(f"{path} was acknowledged to client {client.number}, and is lost")
