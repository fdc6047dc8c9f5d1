"""A fresh environment with nothing but the wheel, pytest and kafka-python: the five lines pass.

`python -m tests.package.fresh` builds the wheel, installs the three, and prints the times: of the
installation, the test, the start of the cluster alone, the steps of our GitHub Actions example, and
eight xdist workers with a cluster each. `--frameworks`: then the projects of docs/FRAMEWORKS.md,
and the examples of those frameworks whose requirements are not those of our tests, Quix Streams and
Faust.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import yaml

from tests.support.frameworks_page import projects, requirements, write
from tests.support.processes import ROOT

EXAMPLES = ROOT / "examples" / "testing"
FRAMEWORKS = ("test_quix.py", "test_faust.py")
WORKFLOW = EXAMPLES / "github-actions.yml"

FIVE_LINES = """
from kafka import KafkaProducer

def test_orders(kafka):
    orders = kafka.topic("orders", partitions=3)
    KafkaProducer(bootstrap_servers=kafka.bootstrap).send(orders, b"x").get(5)
    assert kafka.records(orders)[0].value == b"x"
"""
EIGHT = """
import os, pytest
from kafka import KafkaProducer

@pytest.mark.parametrize("number", range(8))
def test_worker(kafka, number, worker_id):
    topic = kafka.topic("orders")
    KafkaProducer(bootstrap_servers=kafka.bootstrap).send(topic, b"x").get(30)
    assert len(kafka.records(topic)) == 1
    print(worker_id, kafka.bootstrap)
"""
STARTS = """
import time
from pybroker_kafka.testing import KafkaCluster

for brokers in (1, 1, 1, 3, 3, 3):
    began = time.perf_counter()
    with KafkaCluster(brokers=brokers):
        print(f"  {brokers} brokers ready after {time.perf_counter() - began:.2f} s")
"""


def run(what: str, *command: str | Path, folder: Path = ROOT) -> str:
    """Its output, which is shown if it fails; how long it took is printed."""
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    print(f"{what}: {time.perf_counter() - began:.2f} s", flush=True)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}")
    return done.stdout


def run_workflow(programs: Path, wheel: Path, project: Path) -> None:
    """The steps of our GitHub Actions example, as its runner would; the wheel is what PyPI has."""
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["test"]["steps"]
    for step in steps:
        if "run" in step:
            script = step["run"].replace("install pybroker-kafka", f"install {wheel}")
            path = f"PATH={programs}:/usr/bin:/bin"
            run(f"workflow: {step['run']}", "env", path, "bash", "-e", "-c", script, folder=project)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        build: list[str | Path] = [sys.executable, "-P", "-m", "build", "--no-isolation", "--wheel"]
        run("wheel", *build, "--outdir", place, ROOT)
        (wheel,) = place.glob("*.whl")
        venv.create(place / "venv", with_pip=True, symlinks=True)
        python = place / "venv" / "bin" / "python"
        pip: list[str | Path] = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "-q",
            "install",
        ]
        run("pip install pybroker-kafka pytest kafka-python", *pip, wheel, "pytest", "kafka-python")
        project = place / "project"
        project.mkdir()
        (project / "test_orders.py").write_text(FIVE_LINES)
        pytest: list[str | Path] = [python, "-m", "pytest", "-q"]
        for time_ in ("first", "second"):
            told = run(f"pytest, the {time_} time", *pytest, "--durations=3", folder=project)
            print(
                *(f"  {line}" for line in told.splitlines() if " test_orders.py::" in line),
                sep="\n",
            )
        print(run("six clusters", python, "-c", STARTS, folder=project), end="")
        run_workflow(place / "venv" / "bin", wheel, project)
        (project / "test_orders.py").write_text(EIGHT)
        eight = [*pytest, "-n", "8", "--dist", "each", "-k", "0", "-rP"]
        told = run("eight workers, a cluster each", *eight, folder=project)
        clusters = {line for line in told.splitlines() if line.startswith("gw")}
        print(f"  {len(clusters)} clusters; {told.splitlines()[-1]}")
        assert len(clusters) == 8, told
        if "--frameworks" in sys.argv:
            run_frameworks(pip, pytest, place)


def run_frameworks(pip: list[str | Path], pytest: list[str | Path], place: Path) -> None:
    """Their projects and examples, in the same environment."""
    wanted = requirements()
    run("pip install " + " ".join(wanted), *pip, *wanted)
    for title, files in projects().items():
        folder = place / title.replace(" ", "-")
        folder.mkdir()
        write(files, folder)
        told = run(f"FRAMEWORKS: {title}", *pytest, "--strict-markers", folder=folder)
        assert " passed" in told, told
    for example in FRAMEWORKS:
        told = run(example, *pytest, "--strict-markers", EXAMPLES / example, folder=place)
        assert "1 passed" in told, told


if __name__ == "__main__":
    main()
