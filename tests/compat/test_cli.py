"""The `pybroker` command as a user runs it: a cluster's life, records in and out, clear errors."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click.testing
import psutil
import pytest

from pybroker_kafka.cli.main import COMMANDS, main
from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_control import SOCKET_FILE, command_node
from pybroker_kafka.local.cluster_state import SUPERVISOR_LOG
from pybroker_kafka.local.ephemeral import remove_left_behind
from tests.support.patience import until
from tests.support.processes import PYBROKER, ROOT, BrokerProcess, zookeeper_process

TIMEOUT_SECONDS = 120


def run(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYBROKER, *arguments],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def succeed(*arguments: str, text: str = "") -> str:
    done = run(*arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fail(*arguments: str) -> str:
    """One clear line on standard error, exit status 2."""
    done = run(*arguments)
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster started with --detach, stopped at the end."""
    directory = tmp_path_factory.mktemp("cluster") / "data"
    start(directory)
    yield directory
    run("stop", "--data-dir", str(directory))


def start(directory: Path, *more: str) -> str:
    ports = ["--port", "0", "--zookeeper-port", "0"]
    return succeed("start", "--detach", *ports, "--data-dir", str(directory), *more)


def status(directory: Path) -> dict[str, object]:
    state: dict[str, object] = json.loads(succeed("status", "--json", "--data-dir", str(directory)))
    return state


def pid_of(name: str, directory: Path) -> int:
    nodes = status(directory)["nodes"]
    assert isinstance(nodes, list)
    (pid,) = [node["pid"] for node in nodes if node["name"] == name]
    assert isinstance(pid, int)
    return pid


def test_records_go_in_and_come_out(data_dir: Path) -> None:
    bootstrap = ["--bootstrap-server", str(status(data_dir)["bootstrap"])]
    assert "3 partitions" in succeed("topics", "create", "users", "-p", "3", *bootstrap)
    text = "".join(f"{number}:name {number}\n" for number in range(100))
    succeed(
        "produce", "users", "--key-separator", ":", "--compression", "lz4", *bootstrap, text=text
    )
    out = succeed(
        "consume",
        "users",
        "--from-beginning",
        "--max-records",
        "100",
        "--format",
        "%k:%v",
        *bootstrap,
    )
    assert sorted(out.splitlines()) == sorted(text.splitlines())
    by_partition: dict[str, list[int]] = {}
    for line in succeed(
        "consume",
        "users",
        "--from-beginning",
        "--timeout-ms",
        "1500",
        "--format",
        "%p %o",
        *bootstrap,
    ).splitlines():
        partition, offset = line.split()
        by_partition.setdefault(partition, []).append(int(offset))
    assert sum(map(len, by_partition.values())) == 100
    assert all(offsets == list(range(len(offsets))) for offsets in by_partition.values())
    described = succeed("topics", "describe", "users", *bootstrap)
    assert "all at their defaults" in described
    assert "users" in succeed("topics", "list", *bootstrap).splitlines()
    succeed("topics", "delete", "users", *bootstrap)
    assert "users" not in succeed("topics", "list", *bootstrap).splitlines()
    assert "pybroker topics create users" in fail("topics", "describe", "users", *bootstrap)


@pytest.mark.nightly
def test_a_line_without_a_key_ends_producing_after_what_came_before(data_dir: Path) -> None:
    bootstrap = ["--bootstrap-server", str(status(data_dir)["bootstrap"])]
    done = run("produce", "keyed", "--key-separator", ":", *bootstrap, text="a:1\nb:2\n3\nd:4\n")
    assert (done.returncode, "line 3 has no ':'" in done.stderr) == (2, True), done.stderr
    read = ["consume", "keyed", "--from-beginning", "--timeout-ms", "1000", "--format", "%k %v"]
    assert sorted(succeed(*read, *bootstrap).splitlines()) == ["a 1", "b 2"]


def test_status_shows_the_nodes(data_dir: Path) -> None:
    state = status(data_dir)
    table = succeed("status", "--data-dir", str(data_dir))
    assert "\u2026" not in table  # whole in 80 columns
    nodes = state["nodes"]
    assert isinstance(nodes, list)
    assert [node["name"] for node in nodes] == ["zookeeper", "broker 1", "broker 2", "broker 3"]
    assert all(node["resident_bytes"] > 1_000_000 for node in nodes)
    assert str(state["bootstrap"]) in table
    assert all(str(node["port"]) in table for node in nodes)


def test_a_locked_directory_is_refused(data_dir: Path) -> None:
    assert "already running" in fail("start", "--port", "0", "--data-dir", str(data_dir))


@pytest.mark.nightly
def test_data_survives_a_stop_and_a_start(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    start(directory, "--config", "num.partitions=2")
    try:
        bootstrap = ["--bootstrap-server", str(status(directory)["bootstrap"])]
        succeed("produce", "kept", *bootstrap, text="one\ntwo\n")
        os.kill(pid_of("broker 2", directory), signal.SIGSTOP)  # paused, it must not hold it up
        assert "stopped broker 3, broker 2, broker 1, zookeeper" in succeed(
            "stop", "--data-dir", str(directory)
        )
        assert not (directory / "logs" / SUPERVISOR_LOG).exists(), "nobody had to be killed"
        assert "no cluster is running" in fail("status", "--data-dir", str(directory))
        start(directory)
        bootstrap = ["--bootstrap-server", str(status(directory)["bootstrap"])]
        out = succeed("consume", "kept", "--from-beginning", "--max-records", "2", *bootstrap)
        assert out.splitlines() == ["one", "two"]
    finally:
        run("stop", "--data-dir", str(directory))


def test_ctrl_c_stops_in_order_and_ephemeral_leaves_nothing() -> None:
    process = subprocess.Popen(
        [*PYBROKER, "start", "--ephemeral", "--port", "0", "--zookeeper-port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, COLUMNS="200"),
    )
    assert process.stdout is not None
    output = ""
    while "producer.send" not in output:
        line = process.stdout.readline()
        assert line, output
        output += line
    directory = Path(output.split("logs: ")[1].split()[0])
    assert directory.is_dir()
    children = psutil.Process(process.pid).children()
    assert len(children) == 4
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT_SECONDS) == 0
    assert not directory.exists()
    assert not any(child.is_running() for child in children)


@pytest.mark.nightly
def test_the_next_one_removes_what_a_killed_ephemeral_cluster_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its nodes have noticed, and not before."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ports = ["--port", "0", "--zookeeper-port", "0"]
    assert "Stop it with" in succeed("start", "--ephemeral", "--detach", "--brokers", "1", *ports)
    (directory,) = tmp_path.iterdir()
    remove_left_behind()
    supervisor = psutil.Process(cluster_state.load(directory).supervisor_pid)
    nodes = supervisor.children()
    supervisor.kill()
    _, alive = psutil.wait_procs([supervisor, *nodes], TIMEOUT_SECONDS)
    assert not alive
    assert directory.is_dir()
    assert "num.partitions" in fail("start", "--ephemeral", "--config", "num.partitions=three")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_an_ephemeral_cluster_that_cannot_start_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert "num.partitions" in fail("start", "--ephemeral", "--config", "num.partitions=three")
    assert list(tmp_path.iterdir()) == []


def test_nodes_do_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    start(directory)
    state = status(directory)
    nodes = state["nodes"]
    assert isinstance(nodes, list)
    pids = [node["pid"] for node in nodes]
    os.kill(int(str(state["supervisor_pid"])), signal.SIGKILL)
    until(lambda: not any(psutil.pid_exists(pid) for pid in pids))
    assert "no cluster is running" in fail("status", "--data-dir", str(directory))


HOLDER = """
import os, subprocess, sys, time
theirs, ours = os.pipe()
subprocess.run(sys.argv[1:], stdin=theirs, check=True)
os.close(theirs)
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, None])
def test_a_cluster_goes_with_the_program_that_started_it(
    tmp_path: Path, number: signal.Signals | None
) -> None:
    """--until-eof, detached: killed, nobody is there to stop it. And in the foreground: EOF."""
    words = [*PYBROKER, "start", "--until-eof", "--brokers", "1", "--port", "0"]
    words += ["--zookeeper-port", "0", "--data-dir", str(tmp_path / "data")]
    if number is None:
        with subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as one:
            assert one.stdout is not None
            assert any(b"ready" in line for line in iter(one.stdout.readline, b""))
            one.communicate()
        assert one.returncode == 0
        return
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, *words, "--detach"], cwd=ROOT, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert any(line == b"up\n" for line in iter(holder.stdout.readline, b""))
        nodes = status(tmp_path / "data")["nodes"]
        assert isinstance(nodes, list)
        holder.send_signal(number)
    until(lambda: not any(psutil.pid_exists(node["pid"]) for node in nodes))


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    new = ["--data-dir", str(tmp_path / "new")]
    free = ["--port", "0", "--zookeeper-port", "0"]
    line = fail("start", *new, *free, "--config", "num.partitons=3")
    assert "did you mean num.partitions?" in line
    assert "num.partitions" in fail("start", *new, *free, "--config", "num.partitions=three")
    for own, option in (("broker.id=5", "--brokers"), ("zookeeper.connect=zk:1", "--zookeeper")):
        assert option in fail("start", *new, *free, "--config", own)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "holiday.jpg").touch()
    assert "not made by pybroker" in fail("start", "--data-dir", str(foreign), *free)
    assert list(foreign.iterdir()) == [foreign / "holiday.jpg"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"port {port}" in fail("start", *new, "--port", port, "--zookeeper-port", "0")
        assert f"port {port}" in fail("start", *new, "--port", "0", "--zookeeper-port", port)
        line = fail("zookeeper", "--port", port)
        assert f"127.0.0.1:{port}: Address already in use; stop what uses it" in line
    assert "HOST:PORT" in fail("topics", "list", "--bootstrap-server", "nonsense")
    assert "pybroker start" in fail("topics", "list", "--bootstrap-server", "127.0.0.1:1")
    assert not any(
        str(tmp_path) in " ".join(process.info["cmdline"] or ())
        for process in psutil.process_iter(["cmdline"])
    )


def test_server_properties_of_another_broker_are_refused(tmp_path: Path) -> None:
    with zookeeper_process(tmp_path) as connect:
        broker = BrokerProcess(tmp_path / "broker", connect)
        broker.start()
        assert broker.stop() == 0
        properties = str(tmp_path / "broker" / "server.properties")
        done = run("broker", properties, "--override", "broker.id=2")
        assert done.returncode == 2
        assert "broker.id" in done.stderr.strip().splitlines()[-1]
        missing = run("broker", str(tmp_path / "missing.properties"))
        assert (missing.returncode, "cannot read" in missing.stderr) == (2, True)


@pytest.mark.nightly
def test_a_broker_that_starts_heeds_ctrl_c(tmp_path: Path) -> None:
    """It waits for a ZooKeeper that never answers, for as long as it may."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        settings = [
            f"log.dirs={tmp_path / 'data'}",
            f"zookeeper.connect=127.0.0.1:{silent.getsockname()[1]}",
            "zookeeper.connection.timeout.ms=100000000",
        ]
        overrides = [f"--override={setting}" for setting in settings]
        process = subprocess.Popen([*PYBROKER, "broker", *overrides], cwd=ROOT)
        silent.accept()[0].recv(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_SECONDS) == 0


def test_help_teaches() -> None:
    text = succeed("--help")
    for command in COMMANDS:
        assert command in text
        assert f"  pybroker {command}" in help_of(command), command


def help_of(command: str) -> str:
    done = click.testing.CliRunner().invoke(main, [command, "--help"])
    assert done.exit_code == 0, done.output
    return done.output


def consume_by_way_of(node: str, directory: Path, *words: str) -> subprocess.Popen[str]:
    """A consumer that asks this broker first, and has had a record."""
    nodes = status(directory)["nodes"]
    assert isinstance(nodes, list)
    brokers = [broker for broker in nodes if broker["kind"] == "broker"]
    brokers.sort(key=lambda broker: broker["name"] != f"broker {node}")
    bootstrap = ",".join(f"127.0.0.1:{broker['port']}" for broker in brokers)
    consumer = subprocess.Popen(
        [*PYBROKER, "consume", *words, "--format", "%v", "--bootstrap-server", bootstrap],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert consumer.stdout is not None
    assert select.select([consumer.stdout], [], [], TIMEOUT_SECONDS)[0]
    return consumer


@pytest.mark.nightly
def test_a_node_is_killed_and_comes_back(data_dir: Path) -> None:
    bootstrap = ["--bootstrap-server", str(status(data_dir)["bootstrap"])]
    where = ["--data-dir", str(data_dir)]
    succeed("topics", "create", "safe", "-p", "3", *bootstrap)
    succeed("produce", "safe", *bootstrap, text="before\n" * 100)
    options = ["--from-beginning", "--max-records", "200"]
    through = consume_by_way_of("2", data_dir, "safe", *options)
    killed = succeed("kill", "2", *where)
    assert "broker 2 is killed" in killed
    assert "absent" in killed
    succeed("produce", "safe", *bootstrap, text="meanwhile\n" * 100)
    assert "broker 2 is ready" in succeed("restart", "2", *where)
    succeed("pause", "3", *where)
    succeed("resume", "3", *where)
    # With ZooKeeper paused no broker could notice: no command waits for it.
    for command, node in (("pause", "zookeeper"), ("pause", "3"), ("resume", "3")):
        assert "ZooKeeper does not answer" in succeed(command, node, *where)
    assert "ZooKeeper does not answer" not in succeed("resume", "zookeeper", *where)
    until(lambda: "all led and fully replicated" in succeed("status", *where))
    for read in (through.communicate()[0], succeed("consume", "safe", *options, *bootstrap)):
        assert sorted(read.splitlines()) == ["before"] * 100 + ["meanwhile"] * 100
    assert through.returncode == 0
    assert "the nodes are: zookeeper, 1, 2, 3" in fail("stop", "7", *where)


@pytest.mark.nightly
def test_nodes_are_commanded_while_one_restarts(data_dir: Path) -> None:
    """It waits for ZooKeeper, which is paused."""
    supervisor = psutil.Process(cluster_state.load(data_dir).supervisor_pid)
    command_node(data_dir, "kill", "2")
    nodes = len(supervisor.children())
    command_node(data_dir, "pause", "zookeeper")
    with ThreadPoolExecutor() as pool:
        restart = pool.submit(command_node, data_dir, "restart", "2")
        until(lambda: len(supervisor.children()) > nodes)
        also = pool.submit(command_node, data_dir, "restart", "3")
        assert command_node(data_dir, "pause", "3") == "broker 3 is paused"
        assert command_node(data_dir, "resume", "3") == "broker 3 is running"
        assert not restart.done()
        assert command_node(data_dir, "resume", "zookeeper") == "zookeeper is running"
        assert "broker 2 is ready" in restart.result()
        assert "broker 3 is ready" in also.result()
    where = ["--data-dir", str(data_dir)]
    until(lambda: "all led and fully replicated" in succeed("status", *where))


def test_what_comes_over_the_control_socket_ends_no_cluster(data_dir: Path) -> None:
    path = data_dir / SOCKET_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for line in (b"[]", b"[" * 4000, b'{"command": "stop", "node": []}', b"3", b"\xff"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_SECONDS)
            connection.connect(str(path))
            connection.sendall(line + b"\n")
            assert b'"error"' in connection.recv(4096)
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(str(path))
        slow.sendall(b"{")
        assert status(data_dir)["nodes"]
        assert "the nodes are" in fail("stop", "7", "--data-dir", str(data_dir))
