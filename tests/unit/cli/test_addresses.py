"""Which cluster is meant without --bootstrap-server."""

from __future__ import annotations

import os
import pwd
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker_kafka.cli import options
from pybroker_kafka.cli.addresses import USUAL_BOOTSTRAP, AddressError, bootstrap_of
from pybroker_kafka.cli.main import main
from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_state import ClusterState, NodeState


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine of its own, with nothing on it."""
    for name in ("PYBROKER_DATA_DIR", "PYBROKER_BOOTSTRAP", "PYBROKER_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "config" / "pybroker").mkdir(parents=True)
    return tmp_path


def running(directory: Path, port: int) -> int:
    """As a supervisor does; the descriptor of its lock."""
    lock = cluster_state.claim(directory)
    node = NodeState("broker", 1, os.getpid(), "127.0.0.1", port, str(directory), "")
    ClusterState(os.getpid(), str(directory), True, "", [node]).save()
    return lock


def test_profiles(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / "config" / "pybroker" / "test.properties"
    file.write_text("bootstrap.servers=127.0.0.1:3\nsecurity.protocol=PLAINTEXT\n")
    done = CliRunner().invoke(main, ["topics", "list", "--profile", "test"])
    assert "no broker answers at 127.0.0.1:3;" in done.stderr
    monkeypatch.setenv("PYBROKER_PROFILE", "test")
    assert (
        "no broker answers at 127.0.0.1:3;" in CliRunner().invoke(main, ["groups", "list"]).stderr
    )
    file.write_text("security.protocol=PLAINTEXT\n")
    done = CliRunner().invoke(main, ["topics", "list"])
    assert done.stderr == f"Error: {file} has no bootstrap.servers\n"
    done = CliRunner().invoke(main, ["topics", "list", "--profile", "other"])
    assert done.exit_code == 2
    assert "there is no profile 'other'" in done.stderr
    assert done.stderr.endswith("there are: test\n")


def test_the_variable(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bootstrap_of(None) == USUAL_BOOTSTRAP
    monkeypatch.setenv("PYBROKER_BOOTSTRAP", "there:9")
    assert bootstrap_of(None) == "there:9"


def test_the_only_ephemeral_cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = [running(home / "tmp" / "pybroker-a", 1)]
    try:
        assert bootstrap_of(None) == "127.0.0.1:1"
        said = CliRunner().invoke(main, ["stop"]).stderr
        assert f"on {home / '.pybroker'}; one runs on {home / 'tmp' / 'pybroker-a'}" in said
        locks.append(running(home / "tmp" / "pybroker-b", 2))
        with pytest.raises(AddressError) as told:
            bootstrap_of(None)
        assert str(told.value) == (
            "2 local clusters are running; say which: --bootstrap-server 127.0.0.1:1 or "
            "--bootstrap-server 127.0.0.1:2"
        )
        said = CliRunner().invoke(main, ["topics", "list"]).stderr
        assert said == f"Error: {told.value}\n"
        monkeypatch.setattr(options, "_is_at_terminal", lambda: True)
        asked = CliRunner().invoke(main, ["topics", "list"], input="7\n2\n")
        assert f"  1  127.0.0.1:1  in {home / 'tmp' / 'pybroker-a'}\n" in asked.stderr
        assert "which one: " in asked.stderr
        assert "no broker answers at 127.0.0.1:2;" in asked.stderr
        locks.append(running(home / ".pybroker", 3))
        assert bootstrap_of(None) == "127.0.0.1:3"
        monkeypatch.setenv("PYBROKER_DATA_DIR", str(home / "data"))
        assert bootstrap_of(None) == USUAL_BOOTSTRAP
    finally:
        for lock in locks:
            os.close(lock)


def test_who_has_no_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In containers users have no entry in passwd, and cron sets no $HOME."""

    def nobody(_uid: int) -> pwd.struct_passwd:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert bootstrap_of(None) == USUAL_BOOTSTRAP
    lock = running(home / "tmp" / "pybroker-a", 1)
    try:
        assert bootstrap_of(None) == "127.0.0.1:1"
        monkeypatch.setenv("HOME", "/there/is/no/such/home")
        assert bootstrap_of(None) == "127.0.0.1:1"
    finally:
        os.close(lock)
