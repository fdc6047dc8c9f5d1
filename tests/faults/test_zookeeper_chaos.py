"""Clients that come, write, send rubbish and vanish at random: the server goes on, and recovers."""

import contextlib
import random
import socket
import threading
import time
from pathlib import Path
from struct import pack

from pybroker_kafka.broker.zookeeper.storage import VERSION_DIRECTORY
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.protocol.zookeeper.jute import (
    CreateRequest,
    DeleteRequest,
    GetChildren2Response,
    PathWatchRequest,
    SetDataRequest,
    Stat,
    WatchRequest,
)
from pybroker_kafka.zookeeper.wal import recover
from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.raw_zookeeper import RawClient

SECONDS = 4.0
CLIENTS = 6
NAMES = [f"/n{number}" for number in range(6)] + [f"/n{number}/x" for number in range(6)]


def frame(rng: random.Random) -> bytes:
    """One request, now and then damaged."""
    path = rng.choice(NAMES)
    op, request = rng.choice(
        [
            (Op.CREATE, CreateRequest(path, bytes(rng.randrange(300)), list(OPEN_ACL), 0)),
            (Op.CREATE, CreateRequest(path, b"", list(OPEN_ACL), 1)),
            (Op.CREATE, CreateRequest(path + "-", b"", list(OPEN_ACL), 3)),
            (Op.CREATE_CONTAINER, CreateRequest(path, b"", list(OPEN_ACL), 4)),
            (Op.DELETE, DeleteRequest(path, -1)),
            (Op.SET_DATA, SetDataRequest(path, b"x", -1)),
            (Op.GET_DATA, PathWatchRequest(path, True)),
            (Op.GET_CHILDREN2, PathWatchRequest("/", True)),
            (Op.ADD_WATCH, WatchRequest("/", rng.randrange(2))),
            (Op.SYNC, jute.PathRequest("/")),
        ]
    )
    body = bytearray(pack(">ii", rng.randrange(1000), op) + jute.encode(request))
    if rng.random() < 0.05:
        body[rng.randrange(len(body))] = rng.randrange(256)
    size = len(body) if rng.random() < 0.995 else rng.randrange(1 << 31)
    return pack(">i", size) + bytes(body)


def disturb(port: int, seed: int, until: float) -> None:
    rng = random.Random(seed)
    known: tuple[int, bytes] = (0, bytes(16))
    while time.monotonic() < until:
        with contextlib.suppress(OSError, IndexError):
            client = RawClient(port, timeout_ms=400, session_id=known[0], password=known[1])
            known = (client.session_id, client.response.password)
            for _ in range(rng.randrange(30)):
                client.sock.sendall(b"".join(frame(rng) for _ in range(rng.randrange(5))))
            end = rng.random()
            if end < 0.3:
                client.sock.sendall(pack(">iii", 8, 1, Op.CLOSE_SESSION))
            elif end < 0.5:
                client.sock.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    while True:
                        client.receive()
            elif end < 0.6:
                time.sleep(0.5)
            client.drop()


def wait_until_sessions_expired(port: int) -> None:
    deadline = time.monotonic() + 120
    answer = b""
    while b"zk_global_sessions\t0\n" not in answer:
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(b"mntr")
            with sock.makefile("rb") as text:
                answer = text.read()


def children_at_rest(port: int) -> tuple[list[str], Stat]:
    """The children of the root once empty containers, too, have been removed."""
    client = RawClient(port, timeout_ms=20_000)
    seen: list[tuple[list[str], Stat]] = []
    while len(seen) < 2 or seen[-1] != seen[-2]:
        assert len(seen) < 20
        time.sleep(1.0)
        reply = client.call(Op.GET_CHILDREN2, PathWatchRequest("/", False))
        found = jute.decode(GetChildren2Response, reply.body)
        seen.append((found.children, found.stat))
    client.close()
    return seen[-1]


def test_the_server_outlives_its_clients(tmp_path: Path) -> None:
    until = time.monotonic() + SECONDS
    with embedded_zookeeper(tmp_path, tick_ms=100, container_check_ms=200) as port:
        threads = [
            threading.Thread(target=disturb, args=(port, seed, until)) for seed in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until_sessions_expired(port)
        names, stat = children_at_rest(port)
        assert stat.pzxid > 50
    files = tmp_path / VERSION_DIRECTORY
    recovered = recover(
        [path.name for path in files.iterdir()], lambda name: (files / name).read_bytes()
    )
    assert sorted(recovered.tree.nodes["/"].children or ()) == sorted(names)
    assert recovered.tree.ephemerals == {}
    assert recovered.sessions == {}
    print(f"{recovered.tree.last_zxid} transactions")
