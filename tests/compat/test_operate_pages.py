"""Units of docs/operate: their commands start, report to systemd, and stop.

With the server.properties and the zoo.cfg of the pages.
"""

from __future__ import annotations

import configparser
import shlex
import shutil
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import javaproperties
import pytest

from pybroker_kafka.local.service_manager import READY, SOCKET_VARIABLE
from pybroker_kafka.testing import Command
from tests.compat.test_own_zookeepers import machines_in
from tests.support.page_blocks import blocks
from tests.support.processes import ROOT, ended, free_port

PAGES = ROOT / "docs" / "operate"
PAGE = PAGES / "systemd.md"
MEMBER_PAGE = PAGES / "zookeeper.md"
STOP_SECONDS = 60.0
REPORT_SECONDS = 120.0


class Notified:
    """The socket at which systemd would get the reports of one service."""

    def __init__(self) -> None:
        name = f"pybroker-{uuid.uuid4().hex}"
        self.variable = f"@{name}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{name}")
        self._socket.settimeout(REPORT_SECONDS)

    def next(self) -> list[str]:
        return self._socket.recv(4096).decode().splitlines()

    def ready(self) -> list[str]:
        while READY not in (lines := self.next()):
            pass
        return lines

    def close(self) -> None:
        self._socket.close()


def units(page: Path) -> list[configparser.ConfigParser]:
    found = []
    for block in blocks(page):
        if block.language == "ini":
            unit = configparser.ConfigParser(interpolation=None)
            unit.optionxform = str  # type: ignore[assignment, method-assign]
            unit.read_string(block.text)
            found.append(unit)
    return found


def test_the_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (properties,) = (b.text for b in blocks(PAGE) if b.language == "properties")
    zookeeper, broker, metrics = (str(free_port()) for _ in range(3))
    ours = {"2181": zookeeper, "9092": broker, "7071": metrics, "/var/lib": str(tmp_path)}
    ours["/etc/pybroker"] = str(tmp_path)

    assert {"broker.id", "log.dirs"} < javaproperties.loads(properties).keys()
    (tmp_path / "server.properties").write_text(here(properties, ours))
    running = []
    for unit, port in zip(units(PAGE), (zookeeper, broker), strict=True):
        words = words_of(unit, ours)
        with closing(Notified()) as notified:
            monkeypatch.setenv(SOCKET_VARIABLE, notified.variable)
            running.append(Command(*words, output=tmp_path / f"{words[0]}.log"))
            assert notified.ready() == [READY, f"STATUS=on port {port}"]
    stop(running)


def test_the_unit_of_a_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is ready once it serves, and says so again after each election."""
    (unit,) = units(MEMBER_PAGE)
    configs = [machine.config for machine in machines_in(tmp_path / "members", free_port())]
    with ExitStack() as stack:
        notified, running = [], []
        for number, config in enumerate(configs[:2], 1):
            data = tmp_path / "members" / f"zk{number}"
            data.mkdir()
            (data / "myid").write_text(f"{number}\n")
            words = words_of(unit, {"/etc/pybroker/zoo.cfg": str(config)})
            notified.append(stack.enter_context(closing(Notified())))
            monkeypatch.setenv(SOCKET_VARIABLE, notified[-1].variable)
            running.append(stack.enter_context(Command(*words, output=tmp_path / f"{number}.log")))
            if number == 1:
                assert notified[0].next() == ["STATUS=looks for a leader: it has started"]
        (_, first), (_, second) = notified[0].ready(), notified[1].ready()
        roles = [status.partition(" in epoch ")[0] for status in (first, second)]
        assert roles == ["STATUS=is follower of server 2", "STATUS=leads the ensemble"]
        running[1].kill()
        (lost,) = notified[0].next()
        assert lost.startswith("STATUS=looks for a leader: ")
        stop(running[:1])


def here(text: str, ours: Mapping[str, str]) -> str:
    for written, local in ours.items():
        text = text.replace(written, local)
    return text


def words_of(unit: configparser.ConfigParser, ours: Mapping[str, str]) -> list[str]:
    service = unit["Service"]
    assert service["Type"] == "notify"
    program, *words = shlex.split(here(service["ExecStart"], ours))
    assert program == "/opt/pybroker/bin/pybroker"
    return words


def stop(running: Sequence[Command]) -> None:
    for command in reversed(running):
        command.terminate()
        assert ended(command, STOP_SECONDS) == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    for number, unit in enumerate([*units(PAGE), *units(MEMBER_PAGE)]):
        unit["Service"]["ExecStart"] = "/bin/true"  # it wants the file to be there
        unit["Service"]["User"] = "root"
        file = tmp_path / f"pybroker-{number}.service"
        with file.open("w") as written:
            unit.write(written, space_around_delimiters=False)
        command = ["systemd-analyze", "verify", "--man=no", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wrong = [line for line in done.stderr.splitlines() if file.name in line]
        assert wrong == []
