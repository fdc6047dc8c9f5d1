"""A cluster that `pybroker start --secure` has made, for tests of its clients and commands."""

from __future__ import annotations

import contextlib
import json
import runpy
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click.testing

from pybroker_kafka.cli.main import main
from tests.support.processes import PYBROKER


class SecureCluster(NamedTuple):
    """One that runs; `printed` is what its start said."""

    data_dir: Path
    state: Mapping[str, Any]
    printed: str

    @property
    def bootstrap(self) -> str:
        return str(self.state["bootstrap"])

    def file(self, user: str, name: str) -> Path:
        return self.data_dir / "security" / user / name

    def snippet(self, user: str, name: str) -> dict[str, Any]:
        """What the snippet of this name sets."""
        settings: dict[str, Any] = runpy.run_path(str(self.file(user, name)))["SECURED"]
        return settings

    def password(self, user: str) -> str:
        return (self.data_dir / "security" / f"{user}.password").read_text().strip()

    def run(self, *words: str, text: str = "", user: str = "admin") -> click.testing.Result:
        """One of our commands, in this process, which finds its credentials by itself."""
        runner = click.testing.CliRunner(env={"PYBROKER_DATA_DIR": str(self.data_dir)})
        login = ["--bootstrap-server", self.bootstrap, "--as", user]
        return runner.invoke(main, [*words, *login], input=text)

    def succeed(self, *words: str, text: str = "", user: str = "admin") -> str:
        done = self.run(*words, text=text, user=user)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    def json(self, *words: str, text: str = "") -> Any:
        return json.loads(self.succeed(*words, "--json", text=text))


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PYBROKER, *words], capture_output=True, text=True, check=False)


def start_words(data_dir: Path, brokers: int) -> list[str]:
    words = ["start", "--secure", "--detach", "--brokers", str(brokers), "--port", "0"]
    return [*words, "--zookeeper-port", "0", "--data-dir", str(data_dir)]


@contextlib.contextmanager
def secure_cluster(data_dir: Path, brokers: int = 1) -> Iterator[SecureCluster]:
    started = command(*start_words(data_dir, brokers))
    assert started.returncode == 0, started.stderr
    try:
        status = command("status", "--json", "--data-dir", str(data_dir))
        assert status.returncode == 0, status.stderr
        yield SecureCluster(data_dir, json.loads(status.stdout), started.stdout)
    finally:
        command("stop", "--data-dir", str(data_dir))
