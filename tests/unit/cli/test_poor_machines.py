"""Machines on which something is missing: each command says in one line what, with status 2."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from pybroker_kafka.cli.main import main
from tests.support.processes import PYBROKER, ROOT

FREE = ("--port", "0", "--zookeeper-port", "0", "--brokers", "1")
TIMEOUT_SECONDS = 120


def said(*words: str) -> str:
    """In this process; nothing is started."""
    done = CliRunner().invoke(main, words, prog_name="pybroker")
    assert (done.exit_code, done.stdout) == (2, ""), (done.output, done.exception)
    (line,) = done.stderr.splitlines()
    return line


def test_a_name_that_nobody_knows() -> None:
    line = said("topics", "list", "--bootstrap-server", "kafka.invalid:9092")
    assert line.startswith(
        "Error: the name 'kafka.invalid' of kafka.invalid:9092 cannot be resolved: "
    )


def test_whoever_answers_is_no_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        line = said("topics", "list", "--bootstrap-server", f"127.0.0.1:{port}")
        answering.join()
    assert "is that a Kafka broker?" in line


def test_directories_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    line = said("start", *FREE, "--data-dir", str(file / "data"))
    assert line == (
        f"Error: cannot use {file / 'data'} as data directory: Not a directory; name another with "
        "--data-dir"
    )
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").touch()
    line = said("start", *FREE, "--data-dir", str(tmp_path / "photos"))
    assert "is not empty and was not made by pybroker; name an empty or new directory" in line

    def no_place(**_: object) -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "mkdtemp", no_place)
    line = said("start", *FREE, "--ephemeral")
    assert line.startswith("Error: there is no place for temporary files: No usable temporary ")
    assert "$TMPDIR" in line


def test_ports_that_are_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for option, owner in (("--port", "broker 1"), ("--zookeeper-port", "ZooKeeper")):
            words = dict(zip(FREE[::2], FREE[1::2], strict=True)) | {option: port}
            line = command("start", "--ephemeral", *(text for one in words.items() for text in one))
            assert line.startswith(f"Error: port {port}, wanted for {owner}, cannot be used: ")
            assert line.endswith(f"choose another with {option}, or 0 for any free port")


def command(*words: str, out: str | None = None, stdin: int = subprocess.DEVNULL) -> str:
    """In a process of its own, which ends with one line."""
    with open(out or os.devnull, "w") as output:
        done = subprocess.run(
            [*PYBROKER, *words], cwd=ROOT, stdin=stdin, stdout=output, stderr=subprocess.PIPE,
            text=True, timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_nothing_to_wait_for() -> None:
    line = command("start", "--ephemeral", "--until-eof", *FREE)
    assert line == "Error: --until-eof waits for the end of a pipe or a terminal; give it one"


@pytest.mark.skipif(sys.platform != "linux", reason="a disk that is always full is Linux's")
@pytest.mark.parametrize("words", ["--help", "completion zsh"])
def test_a_full_disk_for_what_is_printed(words: str) -> None:
    line = command(*words.split(), out="/dev/full")
    assert line == "Error: cannot write what it prints: No space left on device"
