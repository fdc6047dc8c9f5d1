"""A data directory always starts: however its cluster ended, `pybroker start` is ready soon after,
with all that was acknowledged, and nothing of the last cluster runs any more.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import click.testing
import psutil
import pytest
import trio

import pybroker_kafka.client.cluster
from pybroker_kafka.broker.zk.registration import SESSION_FILE
from pybroker_kafka.broker.zookeeper.storage import VERSION_DIRECTORY, open_storage
from pybroker_kafka.cli.main import main
from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.producer import Producer
from pybroker_kafka.local.cluster_state import LOCK_FILE, STATE_FILE, claim
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.storage.checkpoints import CLEAN_SHUTDOWN_FILE
from pybroker_kafka.zookeeper.wal import LOG_PREFIX, zxid_of
from tests.support.local_cluster import LocalCluster, local_cluster
from tests.support.nightly import chosen
from tests.support.patience import fair
from tests.support.processes import PYBROKER, ZooKeeperProcess, free_port

READY_SECONDS = 20.0  # 5 s on a machine that does nothing else
END_SECONDS = 15.0
NOBODY = 65534


def kill_all(cluster: LocalCluster) -> None:
    cluster.signal_group(signal.SIGKILL)
    cluster.wait_until_gone(END_SECONDS)


def zookeeper_killed_then_stopped(cluster: LocalCluster) -> None:
    cluster.succeed("kill", "zookeeper")
    cluster.succeed("stop")


def brokers_and_zookeeper_killed_then_stopped(cluster: LocalCluster) -> None:
    for node in ("zookeeper", "1", "2"):
        os.kill(cluster.node_pid(node), signal.SIGKILL)
    cluster.succeed("stop")


def supervisor_killed(cluster: LocalCluster) -> None:
    cluster.signal(signal.SIGKILL)


def supervisor_killed_with_paused_nodes(cluster: LocalCluster) -> None:
    for node in ("zookeeper", "1"):
        os.kill(cluster.node_pid(node), signal.SIGSTOP)
    cluster.signal(signal.SIGKILL)


def all_killed(cluster: LocalCluster) -> None:
    cluster.signal_group(signal.SIGKILL)


def supervisor_hung_up(cluster: LocalCluster) -> None:
    cluster.signal(signal.SIGHUP)
    assert cluster.wait_for_end() == 0


def terminal_closed(cluster: LocalCluster) -> None:
    cluster.signal_group(signal.SIGHUP)
    assert cluster.wait_for_end() == 0


def terminated_with_its_group(cluster: LocalCluster) -> None:
    cluster.signal_group(signal.SIGTERM)
    assert cluster.wait_for_end() == 0
    cluster.wait_until_gone(0.5)


def suspended_then_stopped(cluster: LocalCluster) -> None:
    """Ctrl-Z in its terminal."""
    cluster.signal_group(signal.SIGSTOP)
    cluster.succeed("stop")


def moved_to_another_zookeeper_port(cluster: LocalCluster) -> None:
    kill_all(cluster)
    cluster.zookeeper_port = free_port()


def moved_to_any_free_port(cluster: LocalCluster) -> None:
    kill_all(cluster)
    cluster.port = cluster.zookeeper_port = 0


def session_files_lost(cluster: LocalCluster) -> None:
    kill_all(cluster)
    for path in cluster.directory.glob(f"broker-*/{SESSION_FILE}"):
        path.unlink()


def session_files_damaged(cluster: LocalCluster) -> None:
    kill_all(cluster)
    for path in cluster.directory.glob(f"broker-*/{SESSION_FILE}"):
        path.write_bytes(b"\0\xff not JSON")


def zookeeper_log_cut(cluster: LocalCluster) -> None:
    """Its last transactions are gone: among them those that closed the sessions."""
    assert cluster.run("stop").returncode == 0
    logs = (cluster.directory / "zookeeper" / VERSION_DIRECTORY).glob(f"{LOG_PREFIX}*")
    newest = max(logs, key=lambda path: zxid_of(path.name) or 0)
    os.truncate(newest, newest.stat().st_size - 150)


ENDS: list[Callable[[LocalCluster], None]] = [
    zookeeper_killed_then_stopped,
    brokers_and_zookeeper_killed_then_stopped,
    supervisor_killed,
    supervisor_killed_with_paused_nodes,
    all_killed,
    supervisor_hung_up,
    terminal_closed,
    terminated_with_its_group,
    suspended_then_stopped,
    moved_to_another_zookeeper_port,
    moved_to_any_free_port,
    session_files_lost,
    session_files_damaged,
    zookeeper_log_cut,
]


ENDS_IN_EVERY_RUN = [supervisor_killed, all_killed, terminal_closed, session_files_lost]


@pytest.mark.parametrize("end", chosen(ENDS, ENDS_IN_EVERY_RUN))
def test_it_starts_again_after(end: Callable[[LocalCluster], None], tmp_path: Path) -> None:
    with local_cluster(tmp_path / "data") as cluster:
        cluster.start()
        cluster.produce("kept", ["one", "two"])
        end(cluster)
        began = fair.now()
        cluster.start()
        assert fair.now() - began < READY_SECONDS
        assert cluster.consume("kept") == ["one", "two"]
        cluster.produce("kept", ["three"])
        assert cluster.run("stop").returncode == 0
        cluster.wait_until_gone(END_SECONDS)


CLEAN_ENDS = [supervisor_killed, supervisor_hung_up, terminal_closed, terminated_with_its_group]


@pytest.mark.parametrize("end", chosen(CLEAN_ENDS, [supervisor_killed, terminal_closed]))
def test_it_is_a_clean_stop(end: Callable[[LocalCluster], None], tmp_path: Path) -> None:
    """The brokers mark their logs clean, and close their sessions while ZooKeeper is there."""
    with local_cluster(tmp_path / "data") as cluster:
        cluster.start()
        end(cluster)
        cluster.wait_until_gone(END_SECONDS)
        for broker_id in (1, 2):
            directory = cluster.directory / f"broker-{broker_id}"
            assert (directory / CLEAN_SHUTDOWN_FILE).exists()
        recovered = open_storage(cluster.directory / "zookeeper", fsync=False)
        sessions = recovered.recovered.sessions
        recovered.close()
        assert sessions == {}


def test_a_stale_file_names_nobody(tmp_path: Path) -> None:
    """Its process ids may be a stranger's by now: stop reaches the supervisor that starts."""
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        with local_cluster(tmp_path / "data") as cluster, socket.socket() as silent:
            cluster.start()
            stale = (cluster.directory / STATE_FILE).read_text()
            cluster.signal_group(signal.SIGKILL)
            cluster.wait_until_gone(END_SECONDS)
            state = {**json.loads(stale), "supervisor_pid": stranger.pid}
            (cluster.directory / STATE_FILE).write_text(json.dumps(state))
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            # This ensemble never answers: the cluster is starting for as long as we need.
            cluster.launch("--zookeeper", f"127.0.0.1:{silent.getsockname()[1]}")
            while (cluster.directory / STATE_FILE).exists():
                time.sleep(0.02)
            assert "starting" in cluster.run("status").stdout
            assert "a cluster that was starting" in cluster.succeed("stop")
            assert cluster.wait_for_end() == 0
            cluster.wait_until_gone(END_SECONDS)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("command", ["status", "stop"])
def test_another_users_cluster(command: str, tmp_path: Path) -> None:
    """It is there, and not ours: which is not the same as nothing there."""
    directory = tmp_path / "data"
    os.close(claim(directory))
    words = [command, "--data-dir", str(directory)]
    assert "no cluster is running" in invoke(*words).stderr
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
        try:
            told = invoke(*words)
        finally:
            os.seteuid(0)
    else:
        (directory / LOCK_FILE).chmod(0)
        told = invoke(*words)
    assert told.exit_code == 2
    assert "permission denied" in told.stderr
    assert "--data-dir" in told.stderr


def test_fewer_brokers_than_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pybroker_kafka.client.cluster, "LEADERLESS_NOTICE_SECONDS", 0.1)
    monkeypatch.setattr(pybroker_kafka.client.cluster, "LEADERLESS_TIMEOUT_SECONDS", 0.5)
    with local_cluster(tmp_path / "data") as cluster:
        cluster.start()
        words = ["topics", "create", "spread", "-p", "4", "-r", "1"]
        invoke(*words, "--bootstrap-server", cluster.bootstrap)
        cluster.succeed("stop")
        cluster.start("--brokers", "1")
        assert "there is data of 2 brokers, and only 1 will run" in cluster.told
        assert "2 without leader (spread-" in cluster.told
        why = (
            r"spread-. has no leader: none of the brokers in sync \(2\) is there"
            ", nor are those of 1 more partitions"
        )
        told: list[str] = []
        with pytest.raises(ClientError, match=rf"^{why}; start these brokers$"):
            trio.run(produce_to_all, cluster.bootstrap, "spread", told.append)
        assert len(told) == 1
        assert re.fullmatch(f"waiting: {why}", told[0])
        cluster.succeed("stop")
        # Their number is remembered.
        cluster.launch_as_remembered()
        cluster.wait_until_ready()
        assert "only" not in cluster.told
        invoke("produce", "spread", "--bootstrap-server", cluster.bootstrap, text="a\nb\nc\nd\n")
        assert cluster.run("stop").returncode == 0


async def produce_to_all(bootstrap: str, topic: str, tell: Callable[[str], None]) -> None:
    async with Producer(bootstrap, report=tell) as producer:
        await producer.send(topic, b"to a partition that has a leader")
        records = [SimpleRecord(0, b"key %d" % number, b"") for number in range(50)]
        await producer.send_all(topic, records)


def invoke(*words: str, text: str = "") -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, words, input=text)


def test_a_disk_that_fills_up_ends_no_supervisor(tmp_path: Path) -> None:
    """What it has to report, and the file of its state, cannot be written: the brokers go on."""
    with local_cluster(tmp_path / "data", brokers=1) as cluster:
        cluster.start()
        supervisor = psutil.Process(cluster.supervisor)
        limit = supervisor.rlimit(psutil.RLIMIT_FSIZE)
        supervisor.rlimit(psutil.RLIMIT_FSIZE, (10, limit[1]))
        zookeeper = psutil.Process(cluster.node_pid("zookeeper"))
        zookeeper.kill()
        zookeeper.wait(END_SECONDS)  # until the supervisor has taken note of it
        assert "zookeeper is not running" in cluster.run("kill", "zookeeper").stdout
        supervisor.rlimit(psutil.RLIMIT_FSIZE, limit)
        cluster.succeed("restart", "zookeeper")
        cluster.produce("kept", ["one"])
        assert cluster.run("stop").returncode == 0


def test_a_closed_terminal_stops_a_server_alone_too(tmp_path: Path) -> None:
    server = ZooKeeperProcess(tmp_path)
    try:
        server.start()
        os.kill(server.pid, signal.SIGHUP)
        assert server.wait(END_SECONDS) == 0
        # Unless it was started to outlive its terminal.
        server.replace_program(["nohup", *PYBROKER])
        server.start()
        os.kill(server.pid, signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(0.5)
        assert server.stop() == 0
    finally:
        server.kill()
