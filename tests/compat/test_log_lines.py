"""A broker's log: what it was started with in its first line, why it ended in its last ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.processes import free_port


def pybroker(*arguments: str) -> str:
    command = [sys.executable, "-m", "pybroker_kafka", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_the_first_and_the_last_lines(tmp_path: Path) -> None:
    place = ("--data-dir", str(tmp_path))
    changed = ("--config", "log.retention.hours=7", "--config", "ssl.key.password=do-not-tell")
    ports = ("--port", str(free_port()), "--zookeeper-port", str(free_port()))
    pybroker(
        "start", "--brokers", "1", *place, *ports, *changed, "--log-format", "json", "--detach"
    )
    pybroker("stop", *place)
    (log,) = tmp_path.rglob("broker-1.log")
    assert "do-not-tell" not in log.read_text()
    lines = [json.loads(line)["message"] for line in log.read_text().splitlines()]
    assert "starts broker 1 in process" in lines[0]
    assert "log.retention.hours=7" in lines[0]
    assert "ssl.key.password=[hidden]" in lines[0]
    assert any("the cluster stops" in line or "stopping on SIG" in line for line in lines[-9:])
    assert lines[-1].startswith("stopped after")
