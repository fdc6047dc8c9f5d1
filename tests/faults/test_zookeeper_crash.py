"""The embedded ZooKeeper's process killed and stopped: what it answered holds, sessions live on."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from struct import error as StructError  # noqa: N812
from struct import pack

from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, PING_XID, Op
from pybroker_kafka.protocol.zookeeper.jute import (
    CreateRequest,
    GetChildren2Response,
    PathWatchRequest,
    SetDataRequest,
    StatResponse,
)
from pybroker_kafka.testing import KafkaCluster
from tests.support.raw_zookeeper import RawClient

ROUNDS = 8
WRITERS = 4

PING = pack(">ii", PING_XID, Op.PING)

SERVER = """
import sys, trio
from pathlib import Path
import pybroker_kafka.broker.zookeeper.storage
from pybroker_kafka.broker.zookeeper.server import serve_zookeeper
pybroker_kafka.broker.zookeeper.storage.SNAPSHOT_TRANSACTIONS = 300

async def main():
    async with trio.open_nursery() as nursery:
        async def serve(*, task_status):
            await serve_zookeeper(Path(sys.argv[1]), port=0, tick_time_ms=int(sys.argv[2]),
                                  task_status=task_status)
        print(await nursery.start(serve), flush=True)

trio.run(main)
"""


@contextlib.contextmanager
def server(directory: Path, tick_ms: int = 2000) -> Iterator[tuple[int, int]]:
    """A server process; yields its port and process id, and kills it at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(directory), str(tick_ms)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.wait()


class Writer:
    """Creates nodes and counts one up, and knows what was acknowledged."""

    def __init__(self, number: int) -> None:
        self.top = f"/w{number}"
        self.acknowledged: set[str] = set()
        self.asked: set[str] = set()
        self.count = 0
        self.last_zxid = 0

    def work(self, port: int) -> None:
        """Write until the server dies."""
        with contextlib.suppress(OSError, StructError):
            client = RawClient(port, last_zxid=self.last_zxid)
            while True:
                name = f"n{len(self.asked)}"
                self.asked.add(name)
                request = CreateRequest(f"{self.top}/{name}", b"x" * 50, list(OPEN_ACL), 0)
                reply = client.call(Op.CREATE, request)
                assert reply.error == 0
                self.acknowledged.add(name)
                self.last_zxid = reply.zxid
                reply = client.call(Op.SET_DATA, SetDataRequest(self.top, b"", self.count))
                # A crash may have hidden the acknowledgement of one more.
                if reply.error == -103:
                    self.count += 1
                    continue
                assert reply.error == 0
                self.count += 1
                self.last_zxid = reply.zxid

    def check(self, client: RawClient) -> None:
        reply = client.call(Op.GET_CHILDREN2, PathWatchRequest(self.top, False))
        names, stat = jute.decode(GetChildren2Response, reply.body)
        assert self.acknowledged <= set(names) <= self.asked
        assert len(names) - len(self.acknowledged) <= 1 + self.unknown
        assert self.count <= stat.version <= self.count + 1
        self.count = stat.version
        self.unknown = len(names) - len(self.acknowledged)

    unknown = 0


def take_up(port: int, before: RawClient | None) -> RawClient:
    """The same session over all crashes, with its ephemeral node."""
    if before is None:
        keeper = RawClient(port, timeout_ms=40_000)
        keeper.call(Op.CREATE, CreateRequest("/keeper", b"", list(OPEN_ACL), 1))
        return keeper
    before.drop()
    keeper = RawClient(
        port,
        timeout_ms=40_000,
        session_id=before.session_id,
        password=before.response.password,
    )
    assert keeper.session_id == before.session_id
    stat = jute.decode(
        StatResponse, keeper.call(Op.EXISTS, PathWatchRequest("/keeper", False)).body
    ).stat
    assert stat.ephemeral_owner == keeper.session_id
    return keeper


def test_everything_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    rng = random.Random(7)
    writers = [Writer(number) for number in range(WRITERS)]
    total = 0
    keeper: RawClient | None = None
    for round_number in range(ROUNDS):
        with server(tmp_path) as (port, pid):
            client = RawClient(port)
            keeper = take_up(port, keeper)
            for writer in writers:
                if round_number == 0:
                    client.call(Op.CREATE, CreateRequest(writer.top, b"", list(OPEN_ACL), 0))
                else:
                    writer.check(client)
            threads = [threading.Thread(target=one.work, args=(port,)) for one in writers]
            for thread in threads:
                thread.start()
            threading.Event().wait(rng.uniform(0.1, 0.6))
            os.kill(pid, signal.SIGKILL)
            for thread in threads:
                thread.join()
            client.drop()
    with server(tmp_path) as (port, _):
        client = RawClient(port)
        for writer in writers:
            writer.check(client)
            total += len(writer.acknowledged)
    assert total > 100
    print(f"{total} acknowledged creations over {ROUNDS} kills, all there")


def test_a_server_that_was_stopped_does_not_blame_its_clients(tmp_path: Path) -> None:
    """SIGSTOP for longer than the session timeout, while the client goes on to ask."""
    with server(tmp_path, tick_ms=200) as (port, pid):
        client = RawClient(port, timeout_ms=800)
        client.call(Op.CREATE, CreateRequest("/e", b"", list(OPEN_ACL), 1))
        os.kill(pid, signal.SIGSTOP)
        for _ in range(8):
            client.send_frame(PING)
            threading.Event().wait(0.25)
        os.kill(pid, signal.SIGCONT)
        for _ in range(8):
            assert client.receive().xid == PING_XID
        assert client.call(Op.EXISTS, PathWatchRequest("/e", False)).error == 0
        client.close()


def test_the_zookeeper_of_an_ephemeral_cluster_comes_back_with_its_data() -> None:
    with KafkaCluster(brokers=1) as kafka:
        orders = kafka.topic("orders", partitions=3)
        kafka.kill("zookeeper")
        kafka.restart("zookeeper")
        kafka.kill(1)
        kafka.restart(1)  # a broker that starts knows only what ZooKeeper tells it
        kafka.produce(orders, b"a book")
        assert [record.value for record in kafka.records(orders)] == [b"a book"]
