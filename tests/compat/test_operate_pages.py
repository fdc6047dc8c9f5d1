"""docs/operate/systemd.md: the commands of its units start and stop, with its server.properties."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import javaproperties
import pytest

from pybroker_kafka.testing import Command
from tests.support.page_blocks import blocks
from tests.support.processes import ROOT, ended, free_port

PAGE = ROOT / "docs" / "operate" / "systemd.md"
STOP_SECONDS = 60.0


def units() -> list[configparser.ConfigParser]:
    found = []
    for block in blocks(PAGE):
        if block.language == "ini":
            unit = configparser.ConfigParser(interpolation=None)
            unit.optionxform = str  # type: ignore[assignment, method-assign]
            unit.read_string(block.text)
            found.append(unit)
    return found


def test_the_units(tmp_path: Path) -> None:
    (properties,) = (b.text for b in blocks(PAGE) if b.language == "properties")
    zookeeper, broker, metrics = (str(free_port()) for _ in range(3))
    ours = {"2181": zookeeper, "9092": broker, "7071": metrics, "/var/lib": str(tmp_path)}
    ours["/etc/pybroker"] = str(tmp_path)

    def here(text: str) -> str:
        for written, local in ours.items():
            text = text.replace(written, local)
        return text

    assert {"broker.id", "log.dirs"} < javaproperties.loads(properties).keys()
    (tmp_path / "server.properties").write_text(here(properties))
    running = []
    for unit, ready in zip(units(), ("ready", "is ready"), strict=True):
        service = unit["Service"]
        program, *words = shlex.split(here(service["ExecStart"]))
        assert program == "/opt/pybroker/bin/pybroker"
        running.append(Command(*words, output=tmp_path / f"{words[0]}.log"))
        running[-1].wait_for(ready)
    for command in reversed(running):
        command.terminate()
        assert ended(command, STOP_SECONDS) == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    for number, unit in enumerate(units()):
        unit["Service"]["ExecStart"] = "/bin/true"  # it wants the file to be there
        unit["Service"]["User"] = "root"
        file = tmp_path / f"pybroker-{number}.service"
        with file.open("w") as written:
            unit.write(written, space_around_delimiters=False)
        command = ["systemd-analyze", "verify", "--man=no", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wrong = [line for line in done.stderr.splitlines() if file.name in line]
        assert wrong == []
