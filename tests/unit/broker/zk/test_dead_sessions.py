"""Sessions of dead brokers are found and closed: by their files, or by the server's secret."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path

import pytest

from pybroker_kafka.broker.zk.dead_sessions import (
    CannotClose,
    close_sessions,
    passwords,
    remembered_sessions,
)
from pybroker_kafka.broker.zk.registration import SESSION_FILE, save_session
from pybroker_kafka.broker.zookeeper.storage import SECRET_FILE
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.protocol.zookeeper.jute import CreateRequest, PathWatchRequest
from pybroker_kafka.replication.controller import znodes
from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.raw_zookeeper import RawClient

EPHEMERAL = 1
SESSION_TIMEOUT_MS = 4_000
_names = itertools.count()


@pytest.fixture
def chroot() -> str:
    return f"/dead-{next(_names)}"


class Broker(RawClient):
    """A broker's session with its registration, which `drop` leaves behind as a crash would."""

    def __init__(self, port: int, chroot: str, broker_id: int, *, controls: bool = False) -> None:
        super().__init__(port, timeout_ms=SESSION_TIMEOUT_MS)
        self.chroot = chroot
        for path in (chroot, f"{chroot}/brokers", f"{chroot}{znodes.BROKER_IDS}"):
            if path:
                self.create(path, b"", 0)
        assert self.create(chroot + znodes.broker_path(broker_id), b"{}", EPHEMERAL) == 0
        if controls:
            data = znodes.encode_controller(broker_id, 0)
            assert self.create(chroot + znodes.CONTROLLER, data, EPHEMERAL) == 0

    def create(self, path: str, data: bytes, flags: int) -> int:
        return self.call(Op.CREATE, CreateRequest(path, data, list(OPEN_ACL), flags)).error

    def sees(self, path: str) -> bool:
        return self.call(Op.EXISTS, PathWatchRequest(self.chroot + path, False)).error == 0

    def remember(self, log_dir: Path) -> None:
        log_dir.mkdir(exist_ok=True)
        save_session(log_dir, "cluster", (self.session_id, self.response.password))


def test_by_the_session_file(zookeeper_port: int, chroot: str, tmp_path: Path) -> None:
    connect = f"127.0.0.1:1,127.0.0.1:{zookeeper_port}{chroot}"
    dead = Broker(zookeeper_port, chroot, 1, controls=True)
    alive = Broker(zookeeper_port, chroot, 2)
    dead.remember(tmp_path / "broker-1")
    dead.drop()
    password_of = passwords([tmp_path / "broker-1", tmp_path / "never-was"], None)
    assert close_sessions(connect, [1], password_of) == [dead.session_id]
    assert not alive.sees(znodes.broker_path(1))
    assert not alive.sees(znodes.CONTROLLER)
    assert close_sessions(connect, [1], password_of) == [], "there is nothing any more"
    assert close_sessions(connect, [2], password_of) == [], "its password is not known"
    assert alive.sees(znodes.broker_path(2))
    alive.close()


def test_a_remembered_session_needs_no_registration(
    zookeeper_port: int, chroot: str, tmp_path: Path
) -> None:
    """The broker died before it had registered, or its registration is not seen yet."""
    connect = f"127.0.0.1:{zookeeper_port}{chroot}"
    dead = Broker(zookeeper_port, chroot, 1)
    dead.remember(tmp_path)
    dead.drop()
    remembered = remembered_sessions([tmp_path])
    known = passwords([tmp_path], None)
    assert close_sessions(connect, [2], known, remembered) == [dead.session_id]
    other = Broker(zookeeper_port, chroot, 2)
    assert not other.sees(znodes.broker_path(1))
    assert close_sessions(connect, [1], known, remembered) == [], "refused: it is closed already"
    other.close()


def test_only_the_dead_controllers_seat(zookeeper_port: int, chroot: str, tmp_path: Path) -> None:
    connect = f"127.0.0.1:{zookeeper_port}{chroot}"
    controller = Broker(zookeeper_port, chroot, 1, controls=True)
    controller.remember(tmp_path)
    other = Broker(zookeeper_port, chroot, 2)
    password_of = passwords([tmp_path], None)
    assert close_sessions(connect, [2, 3], password_of) == []
    assert other.sees(znodes.CONTROLLER)
    assert close_sessions(connect, [1, 3], password_of) == [controller.session_id]
    assert not other.sees(znodes.CONTROLLER)
    other.close()


def test_a_wrong_password_closes_nothing(zookeeper_port: int, chroot: str, tmp_path: Path) -> None:
    dead = Broker(zookeeper_port, chroot, 1)
    dead.drop()
    save_session(tmp_path, "cluster", (dead.session_id, b"\x07" * 16))
    connect = f"127.0.0.1:{zookeeper_port}{chroot}"
    assert close_sessions(connect, [1], passwords([tmp_path], None)) == []
    other = Broker(zookeeper_port, chroot, 2)
    assert other.sees(znodes.broker_path(1))
    other.close()


def test_by_the_embedded_servers_secret(tmp_path: Path) -> None:
    """The session files are lost or unreadable, and the server is at another port."""
    data_dir = tmp_path / "zookeeper"
    with embedded_zookeeper(data_dir) as port:
        for broker_id in (1, 2):
            Broker(port, "", broker_id).drop()
    (tmp_path / SESSION_FILE).write_text("damaged")
    with embedded_zookeeper(data_dir) as port:
        password_of = passwords([tmp_path], data_dir / SECRET_FILE)
        assert len(close_sessions(f"127.0.0.1:{port}", [1, 2, 3], password_of)) == 2
        reader = Broker(port, "", 1)  # the id is free
        assert not reader.sees(znodes.broker_path(2))
        reader.close()


def test_nobody_answers_in_time(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        connect = f"127.0.0.1:1,127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(CannotClose, match="does not answer: timed out"):
            close_sessions(connect, [1], passwords([], None), timeout_s=0.1)
    with pytest.raises(CannotClose, match="does not answer"):
        close_sessions("127.0.0.1:1", [1], passwords([], None))
