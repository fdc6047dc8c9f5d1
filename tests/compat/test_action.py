"""The steps of the GitHub Action, run as its runner does; the runner itself is not here."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafka import KafkaConsumer

from tests.support.nightly import chosen
from tests.support.processes import PYBROKER, ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
STEP_SECONDS = 100.0


class Runner:
    """The files and variables of a job's runner."""

    def __init__(self, directory: Path, inputs: dict[str, str]) -> None:
        self.temp = directory / "temp"
        self.temp.mkdir()
        self.files = {
            name: directory / name for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH")
        }
        for path in self.files.values():
            path.touch()
        defaults = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
        assert inputs.keys() <= defaults.keys()
        self._values = {f"inputs.{key}": text for key, text in {**defaults, **inputs}.items()}
        self._values["runner.temp"] = str(self.temp)

    def run(self, step: dict[str, Any]) -> str:
        def filled(text: str) -> str:
            return re.sub(r"\$\{\{ (\S+) \}\}", lambda m: self._values[m[1]], text)

        assert "${{" not in step["run"], "an input in a script could be a command"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={
                **{key: value for key, value in os.environ.items() if "PYBROKER" not in key},
                **{name: str(path) for name, path in self.files.items()},
                **{key: filled(text) for key, text in step.get("env", {}).items()},
                "RUNNER_TEMP": str(self.temp),
            },
            capture_output=True,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def told(self, name: str) -> dict[str, str]:
        lines = self.files[name].read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


def step(name: str) -> dict[str, Any]:
    (found,) = (one for one in ACTION["runs"]["steps"] if one["id"] == name)
    return dict(found)


@pytest.mark.nightly
def test_it_installs_what_it_is_told(tmp_path: Path) -> None:
    """Into an environment of its own, whose commands later steps find."""
    wheel = tmp_path / "pybroker_kafka-0.0.0-py3-none-any.whl"
    about = "pybroker_kafka-0.0.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("stand_in.py", "def main(): print('here')\n")
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 0.0.0\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{about}/entry_points.txt", "[console_scripts]\npybroker=stand_in:main\n")
        file.writestr(f"{about}/RECORD", "")
    runner = Runner(tmp_path, {"package": str(wheel)})
    runner.run(step("install"))
    (path,) = runner.files["GITHUB_PATH"].read_text().split()
    assert subprocess.check_output([f"{path}/pybroker"], text=True) == "here\n"


@pytest.mark.parametrize("secure", chosen(["false", "true"], ["true"]))
def test_it_starts_a_cluster(tmp_path: Path, secure: str) -> None:
    runner = Runner(
        tmp_path,
        {
            "brokers": "2",
            "port": "0",
            "config": "num.partitions=3\n\nlog.retention.ms=5000\n",
            "topics": "orders:2 bills\nprices",
            "secure": secure,
        },
    )
    programs = runner.temp / "pybroker" / "bin"
    programs.mkdir(parents=True)
    command = programs / "pybroker"
    words = " ".join(f"'{word}'" for word in PYBROKER)
    command.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    command.chmod(0o755)
    try:
        assert "ready" in runner.run(step("start"))
        told, environment = runner.told("GITHUB_OUTPUT"), runner.told("GITHUB_ENV")
        bootstrap = told["bootstrap-servers"]
        assert bootstrap.count(":") == 2
        directory = told["data-dir"]
        assert environment == {"KAFKA_BOOTSTRAP_SERVERS": bootstrap, "PYBROKER_DATA_DIR": directory}
        values = {f"steps.start.outputs.{key}" for key in told}
        outputs = {one["value"].strip("${} ") for one in ACTION["outputs"].values()}
        assert values <= outputs
        if secure == "true":
            assert (Path(told["security-dir"]) / "user" / "client.properties").exists()
        else:
            assert values < outputs
            consumer = KafkaConsumer(bootstrap_servers=bootstrap)
            counts = {
                name: len(consumer.partitions_for_topic(name))
                for name in ("orders", "bills", "prices")
            }
            assert counts == {"orders": 2, "bills": 3, "prices": 3}
            consumer.close()
    finally:
        data = runner.temp / "pybroker-data"
        subprocess.run([*PYBROKER, "stop", "--data-dir", str(data)], check=False, timeout=100)
