"""docs/SECURITY.md: its steps by hand do what they say. About 8 s."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.processes import PYBROKER, ROOT, free_port

PAGE = ROOT / "docs" / "SECURITY.md"
WAIT_SECONDS = 90.0

pytestmark = pytest.mark.timeout(180)


def commands_by_hand() -> str:
    _, found, text = PAGE.read_text().partition("## By hand\n")
    assert found
    return "\n".join(re.findall(r"```sh\n(.*?)```", text.partition("\n## ")[0], re.DOTALL))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_steps_by_hand(tmp_path: Path) -> None:
    script = commands_by_hand()
    broker = free_port(2)
    ports = {"2181": free_port(), "9092": broker, "9192": broker + 1}
    for written, port in ports.items():
        script = re.sub(rf"\b{written}\b", str(port), script)
    command = " ".join(PYBROKER)
    prologue = f'pybroker() {{ {command} "$@"; }}\n'
    environment = {**os.environ, "PYBROKER_DATA_DIR": str(tmp_path / "nothing")}
    output = tmp_path / "output"
    with output.open("w") as file:
        process = subprocess.Popen(
            ["bash", "-euc", prologue + script],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        # The brokers that it has started in the background outlive it.
        while process.poll() is None:
            assert time.monotonic() < deadline, output.read_text()
            time.sleep(0.1)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    printed = output.read_text()
    assert process.returncode == 0, printed
    for line in (
        "added user admin, for SCRAM-SHA-256 and SCRAM-SHA-512",
        "added 5 ACLs",
        "created topic flights with 1 partition",
        "\nhello\n",
        "of User:alice, good until",
    ):
        assert line in printed, printed
