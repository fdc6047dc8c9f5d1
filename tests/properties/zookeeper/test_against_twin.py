"""The machine against a dumb twin: a dict of paths, copied whole before every multi."""

import copy
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op, ZkCode
from pybroker_kafka.protocol.zookeeper.jute import (
    CheckVersionRequest,
    CreateRequest,
    DeleteRequest,
    GetDataResponse,
    PathWatchRequest,
    SetDataRequest,
)
from pybroker_kafka.zookeeper.wal import encode_records, log_header, log_name, recover
from tests.support.zookeeper_machine import MachineClient, World, walk

SESSIONS = 3
PATHS = ["/a", "/b", "/a/a", "/a/b", "/a/a/a", "/zookeeper"]


class Twin:
    """What ZooKeeper's documentation says, in the fewest words. Errors are returned."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"):
            self.nodes[path] = self.new(b"", 0, 0)
        self.zxid = 0

    def new(self, data: bytes, owner: int, zxid: int) -> dict[str, Any]:
        return {
            "data": data, "owner": owner, "version": 0, "creations": 0,
            "czxid": zxid, "mzxid": zxid, "pzxid": zxid,
        }  # fmt: skip

    def children(self, path: str) -> list[str]:
        prefix = path.rstrip("/") + "/"
        return sorted(
            other[len(prefix) :]
            for other in self.nodes
            if other.startswith(prefix) and other != "/" and "/" not in other[len(prefix) :]
        )

    def parent(self, path: str) -> str:
        return path.rsplit("/", 1)[0] or "/"

    def apply(self, session: int, step: Sequence[Any]) -> int:
        """One part of a write; the zxid is counted by `write`."""
        kind, path, *rest = step
        if kind == "create":
            flags, data = rest
            parent = self.nodes.get(self.parent(path))
            if parent is None:
                return ZkCode.NO_NODE
            if flags & 2:
                path = f"{path}{parent['creations']:010d}"
            if path in self.nodes:
                return ZkCode.NODE_EXISTS
            if parent["owner"]:
                return ZkCode.NO_CHILDREN_FOR_EPHEMERALS
            parent["creations"] += 1
            parent["pzxid"] = self.zxid
            self.nodes[path] = self.new(data, session if flags & 1 else 0, self.zxid)
            return 0
        if kind == "delete" and path == "/zookeeper":
            return ZkCode.BAD_ARGUMENTS
        if kind == "delete" and self.parent(path) not in self.nodes:
            return ZkCode.NO_NODE
        node = self.nodes.get(path)
        if node is None:
            return ZkCode.NO_NODE
        version = rest[0]
        if version not in (-1, node["version"]):
            return ZkCode.BAD_VERSION
        if kind == "delete":
            if self.children(path):
                return ZkCode.NOT_EMPTY
            del self.nodes[path]
            self.nodes[self.parent(path)]["pzxid"] = self.zxid
        elif kind == "set":
            node["data"] = rest[1]
            node["version"] += 1
            node["mzxid"] = self.zxid
        return 0

    def write(self, session: int, steps: list[Any]) -> list[int]:
        """All or nothing, at one zxid."""
        self.zxid += 1
        saved = copy.deepcopy(self.nodes)
        codes: list[int] = []
        for step in steps:
            codes.append(self.apply(session, step))
            if codes[-1]:
                self.nodes = saved
                left = len(steps) - len(codes)
                return [0] * (len(codes) - 1) + [codes[-1]] + [-2] * left
        return codes

    def close(self, session: int) -> None:
        self.zxid += 1
        for path in [path for path, node in self.nodes.items() if node["owner"] == session]:
            del self.nodes[path]
            self.nodes[self.parent(path)]["pzxid"] = self.zxid


paths = st.sampled_from(PATHS)
versions = st.sampled_from([-1, -1, 0, 1])
data = st.binary(max_size=3)
parts = st.one_of(
    st.tuples(st.just("create"), paths, st.integers(0, 3), data),
    st.tuples(st.just("create"), paths, st.just(0), data),
    st.tuples(st.just("delete"), paths, versions),
    st.tuples(st.just("set"), paths, versions, data),
)
checks = st.tuples(st.just("check"), paths, versions)
steps: st.SearchStrategy[Any] = st.one_of(
    parts.map(lambda part: ("one", [part])),
    parts.map(lambda part: ("one", [part])),
    st.lists(parts | checks, max_size=4).map(lambda some: ("multi", some)),
    st.just(("close", [])),
)


def request_of(part: Any) -> tuple[Op, object]:
    kind, path, *rest = part
    if kind == "create":
        return Op.CREATE, CreateRequest(path, rest[1], list(OPEN_ACL), rest[0])
    if kind == "delete":
        return Op.DELETE, DeleteRequest(path, rest[0])
    if kind == "set":
        return Op.SET_DATA, SetDataRequest(path, rest[1], rest[0])
    return Op.CHECK, CheckVersionRequest(path, rest[0])


def compare(client: MachineClient, twin: Twin) -> None:
    """Everything that can be read, read."""
    tree = client.world.machine.tree
    assert {path for path, _ in walk(tree)} == set(twin.nodes)
    for path, node in twin.nodes.items():
        children = twin.children(path)
        reply = client.call(Op.GET_DATA, PathWatchRequest(path, False))
        content, stat = jute.decode(GetDataResponse, reply.body)
        if path != "/zookeeper/config":
            assert stat.aversion == 0
        assert content == node["data"]
        assert (stat.czxid, stat.mzxid, stat.version) == (
            node["czxid"],
            node["mzxid"],
            node["version"],
        )
        assert stat.data_length == len(node["data"])
        assert stat.ephemeral_owner == node["owner"]
        assert stat.num_children == len(children)
        if not path.startswith("/zookeeper") and path != "/":
            assert (stat.pzxid, stat.cversion) == (
                node["pzxid"],
                node["creations"] * 2 - len(children),
            )
        assert client.children(path) == children


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, SESSIONS - 1), steps), max_size=30))
def test_the_machine_does_what_the_twin_does(program: list[tuple[int, Any]]) -> None:
    world, twin = World(), Twin()
    reader = world.client()
    clients = [world.client() for _ in range(SESSIONS)]
    twin.zxid = SESSIONS + 1
    for number, (kind, some) in program:
        client = clients[number]
        if kind == "close":
            client.call(Op.CLOSE_SESSION)
            twin.close(client.session_id)
            clients[number] = world.client()
            twin.zxid += 1
            continue
        expected = twin.write(client.session_id, some)
        if kind == "multi":
            assert client.multi(*map(request_of, some)) == expected
        else:
            op, request = request_of(some[0])
            assert [client.call(op, request).error] == expected
        assert world.machine.tree.last_zxid == twin.zxid
    compare(reader, twin)
    log = log_header() + encode_records(world.records)
    recovered = recover([log_name(1)], lambda name: log)
    again = World(recovered.tree, recovered.sessions)
    twin.zxid += 1
    compare(again.client(), twin)
