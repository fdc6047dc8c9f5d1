"""`pybroker start` with a ZooKeeper that lets in nobody but the cluster: about 6 seconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, SessionClosedRequireSaslError

from tests.support.patience import until
from tests.support.processes import PYBROKER

SECRET = "4b1d-not-to-be-seen-anywhere"
NEW_SESSION_S = 5.0  # less than the session timeout of a local cluster


def run(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYBROKER, *arguments], input=text, capture_output=True, text=True, check=False
    )


def succeed(*arguments: str, text: str | None = None) -> str:
    done = run(*arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.nightly
def test_a_closed_cluster(tmp_path: Path) -> None:
    data_dir, credentials = tmp_path / "data", tmp_path / "credentials"
    credentials.write_text(f"cluster:{SECRET}\n")
    start = ["start", "--detach", "--brokers", "2", "--port", "0", "--zookeeper-port", "0"]
    start += ["--zookeeper-credentials", str(credentials), "--data-dir", str(data_dir)]
    credentials.chmod(0o644)
    refused = run(*start)
    assert refused.returncode == 2
    assert "chmod 600" in refused.stderr
    credentials.chmod(0o600)
    succeed(*start)
    try:
        state = json.loads(succeed("status", "--json", "--data-dir", str(data_dir)))
        bootstrap = ["--bootstrap-server", state["bootstrap"]]
        succeed("topics", "create", "t", "-r", "2", *bootstrap)
        succeed("produce", "t", *bootstrap, text="one\n")
        strangers_see_nothing(state["zookeeper"])
        acls_are_set(state["zookeeper"])
        pids = {node["name"]: node["pid"] for node in state["nodes"]}
        for pid in pids.values():
            assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
            assert SECRET.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        # The supervisor closes the session of a dead broker: it has the credentials too.
        os.kill(pids["broker 1"], signal.SIGKILL)
        until(lambda: broker_ids(state["zookeeper"]) == ["2"], seconds=NEW_SESSION_S)
        succeed("restart", "1", "--data-dir", str(data_dir))
        assert broker_ids(state["zookeeper"]) == ["1", "2"]
        read = ["consume", "t", "--from-beginning", "--max-records", "1", *bootstrap]
        assert succeed(*read).splitlines() == ["one"]
    finally:
        run("stop", "--data-dir", str(data_dir))
    written = [path for path in data_dir.rglob("*") if path.is_file()]
    assert written
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []


def strangers_see_nothing(connect: str) -> None:
    client = KazooClient(connect)
    client.start()
    try:
        with pytest.raises(SessionClosedRequireSaslError):
            client.get_children("/")
    finally:
        client.stop()
        client.close()


def member(connect: str) -> KazooClient:
    client = KazooClient(connect, auth_data=[("digest", f"cluster:{SECRET}")])
    client.start()
    return client


def broker_ids(connect: str) -> list[str]:
    client = member(connect)
    try:
        ids: list[str] = sorted(client.get_children("/brokers/ids"))
    finally:
        client.stop()
        client.close()
    return ids


def acls_are_set(connect: str) -> None:
    """Also against another identity that would once get in."""
    client = member(connect)
    try:
        owner, world = client.get_acls("/brokers/topics/t")[0]
        assert (owner.perms, owner.id.scheme) == (31, "digest")
        assert (world.perms, world.id.scheme) == (1, "world")
        assert client.get_acls("/config/users")[0] == [owner]
        assert client.get_acls("/config/brokers")[0] == [owner]
        client.set_acls("/config/users", [owner])
    except NoAuthError as error:
        raise AssertionError("the cluster may do everything") from error
    finally:
        client.stop()
        client.close()
