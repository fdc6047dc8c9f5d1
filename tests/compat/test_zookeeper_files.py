"""Apache ZooKeeper starts on files of ours, ours on files of its, and its tools read ours."""

from __future__ import annotations

import random
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from pybroker_kafka.broker.zookeeper.storage import read_content
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.protocol.zookeeper.jute import CreateRequest, CreateTTLRequest
from pybroker_kafka.zookeeper.snapshot import capture
from pybroker_kafka.zookeeper.snapshot_file import encode_snapshot
from pybroker_kafka.zookeeper.wal import read_log, recover, snapshot_name
from tests.compat.test_zookeeper_ensembles import (
    assert_equal_trees,
    skip_without_java,
    write_at_each,
)
from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.ensembles import Ensemble, ensemble, tree_at
from tests.support.page_blocks import blocks
from tests.support.processes import PYBROKER, ROOT, ServerProcess
from tests.support.raw_zookeeper import RawClient
from tests.support.real_zookeeper import (
    LOG_TOOL_CLASS,
    RealZooKeeper,
    dumped_snapshot,
    run_tool,
)

PAGE = ROOT / "docs" / "operate" / "zookeeper.md"
THIS = "tests/compat/test_zookeeper_files.py::test_one_server_moves_to_apache_zookeeper_and_back"
OPERATIONS = 120
TICK_MS = 2000
TIMEOUT_MS = 20 * TICK_MS  # the longest: nothing expires while servers change
ACLS = [OPEN_ACL_UNSAFE, [make_digest_acl("u", "p", read=True), *OPEN_ACL_UNSAFE]]


def write_at_random(port: int, seed: int) -> tuple[int, bytes]:
    """Writes of all kinds, of which many fail. The session that stays has an ephemeral node."""
    chance = random.Random(seed)
    names = [f"/n{number}" for number in range(5)]
    names += [f"{name}/{child}" for name in names for child in "abc"]
    client = KazooClient(f"127.0.0.1:{port}")
    client.start(timeout=60)
    for number in range(OPERATIONS):
        path, content = chance.choice(names), chance.randbytes(chance.randrange(40))
        sequence, ephemeral = chance.random() < 0.3, chance.random() < 0.3
        several = client.transaction()
        several.create(path, content)
        several.check(chance.choice(names), -1)
        several.set_data(chance.choice(names), content)
        several.delete(chance.choice(names))
        create, put, acl = chance.choice(names), chance.choice(names), chance.choice(ACLS)
        actions = [
            lambda p=create, d=content, a=acl, s=sequence: client.create(p, d, acl=a, sequence=s),
            lambda p=create, e=ephemeral: client.create(p, ephemeral=e),
            lambda p=put, d=content: client.set(p, d),
            lambda p=put, a=acl: client.set_acls(p, a),
            lambda p=path: client.delete(p),
            several.commit,
        ]
        try:
            actions[number % len(actions)]()
        except KazooException:
            continue
    client.stop()
    client.close()
    stays = RawClient(port, timeout_ms=TIMEOUT_MS)
    for op, request in (
        (Op.CREATE, CreateRequest(f"/stays-{seed}", b"", list(OPEN_ACL), 1)),
        (Op.CREATE_CONTAINER, CreateRequest(f"/container-{seed}", b"", list(OPEN_ACL), 4)),
        (Op.CREATE_TTL, CreateTTLRequest(f"/ttl-{seed}", b"", list(OPEN_ACL), 5, 3_600_000)),
    ):
        assert stays.call(op, request).error == 0
    stays.sock.close()
    return stays.session_id, stays.response.password


def assert_tools_read(data: Path, logs: Path) -> None:
    """Our log, and a snapshot of ours of the state that the server has written one of, too."""
    (log,) = logs.glob("log.*")
    count = len(read_log(log.name, read_content(log)).transactions)
    told = run_tool(LOG_TOOL_CLASS, "-d", log)
    assert "CRC ERROR" not in told
    assert f"EOF reached after {count} txns." in told
    files = {path.name: read_content(path) for path in (*data.iterdir(), log)}
    recovered = recover(list(files), files.__getitem__)
    name = snapshot_name(recovered.tree.last_zxid)
    ours = data.with_name(name)
    ours.write_bytes(b"".join(encode_snapshot(capture(recovered.tree, recovered.sessions))))
    assert dumped_snapshot(ours) == dumped_snapshot(data / name)


def test_one_server_moves_to_apache_zookeeper_and_back(tmp_path: Path) -> None:
    skip_without_java(("real",))
    logs = tmp_path / "logs"
    real = RealZooKeeper(tmp_path, tick_ms=TICK_MS, settings={"dataLogDir": logs})
    with embedded_zookeeper(real.data, log_dir=logs, tick_ms=TICK_MS) as port:
        write_at_random(port, 1)
        before = tree_at(f"127.0.0.1:{port}")
    try:
        real.start()
        assert tree_at(f"127.0.0.1:{real.port}") == before
        assert {"/stays-1", "/container-1", "/ttl-1"} <= before.keys()
        (snapshot,) = {path.name for path in (real.data / "version-2").iterdir()} - {"snapshot.0"}
        files = tmp_path / "read" / "version-2"
        files.mkdir(parents=True)
        for name in ("snapshot.0", snapshot):
            shutil.copy(real.data / "version-2" / name, files / name)
        log = files.with_name("version-2-of-logs")
        log.mkdir()
        shutil.copy(logs / "version-2" / "log.1", log / "log.1")
        session = write_at_random(real.port, 2)
        between = tree_at(f"127.0.0.1:{real.port}")
    finally:
        real.kill()
    assert_tools_read(files, log)
    (block,) = (one for one in blocks(PAGE) if one.noted("run by ") == THIS)
    program, *words = shlex.split(block.text)
    assert program == "pybroker"
    server = ServerProcess([*PYBROKER, *words[:-1], str(tmp_path / words[-1])], tmp_path / "ours")
    server.start()
    try:
        assert tree_at(f"127.0.0.1:{real.port}") == between
        assert {"/stays-1", "/stays-2"} <= between.keys()
        session_id, password = session
        again = RawClient(real.port, session_id=session_id, password=password)
        assert again.session_id == session_id
        again.sock.close()
    finally:
        server.kill()


def exchange(running: Ensemble, kinds: Sequence[str]) -> None:
    """All members end; those of these kinds come, each with the files of the one before."""
    for number, kind in enumerate(kinds, 1):
        before = running.members[number].data
        running.kill(number)
        running.place(number, kind)
        shutil.copytree(before, running.members[number].data, dirs_exist_ok=True)
    running.launch()
    running.await_leader()


@pytest.mark.nightly
def test_members_take_over_the_files_of_the_other_kind(tmp_path: Path) -> None:
    skip_without_java(("real",))
    with ensemble(tmp_path, ("ours", "ours", "real")) as running:
        running.launch()
        running.await_leader()
        write_at_each(running, "first")
        first = assert_equal_trees(running)
        exchange(running, ("real", "real", "ours"))
        assert assert_equal_trees(running) == first
        write_at_each(running, "second")
        second = assert_equal_trees(running)
        exchange(running, ("ours", "ours", "real"))
        assert assert_equal_trees(running) == second
        write_at_each(running, "third")
        assert_equal_trees(running)
