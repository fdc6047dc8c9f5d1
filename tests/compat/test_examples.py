"""Each program of examples/ as a newcomer runs it: a process of its own, against a local cluster.

What a program prints is its result, so that is what is looked at. One cluster of three brokers
serves all of them but the one that has a broker killed and the one for a secured cluster.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from pybroker_kafka.cli.main import main
from pybroker_kafka.spark_jobs.java import JavaNotFoundError, find_java_home
from pybroker_kafka.testing import KafkaCluster
from tests.support.apache_kafka import KAFKA_VERSION
from tests.support.maven import cache_directory
from tests.support.processes import ROOT

EXAMPLES = ROOT / "examples"
TIMEOUT_SECONDS = 120.0
# Three JVMs' worth of start-up: 25 s on a quiet machine, four times that on a busy one.
SPARK_TIMEOUT_SECONDS = 280.0
LINES = range(10, 41)  # of code; docstring, imports and empty lines do not count


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3) as started:
        yield started


def run(
    name: str,
    cluster: KafkaCluster | None,
    folder: Path,
    *arguments: str,
    timeout_seconds: float = TIMEOUT_SECONDS,
    **more: str,
) -> str:
    """What the program prints; it must end well."""
    here = {} if cluster is None else {"KAFKA_BOOTSTRAP": cluster.bootstrap}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        cwd=folder,
        env={**os.environ, **here, **more},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    assert done.returncode == 0, f"{name}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_first_steps(cluster: KafkaCluster, tmp_path: Path) -> None:
    argument = cluster.bootstrap
    told = run("first_steps.py", cluster, tmp_path, argument, KAFKA_BOOTSTRAP="127.0.0.1:1")
    written = re.findall(r"  (\w+) +(\w.*?) +-> partition (\d), offset (\d)\n", told)
    read = re.findall(r"  partition (\d), offset (\d) -> (\w+) +(\w.*)\n", told)
    assert len(written) == 6
    assert sorted(written) == sorted((planet, fact, *place) for *place, planet, fact in read)
    for planet in ("Earth", "Mars"):
        assert len({partition for name, _, partition, _ in written if name == planet}) == 1
    (topic,) = re.findall(r"pybroker consume (\S+) --from-beginning", told)
    assert f"The topic {topic} has 2 partitions." in told


def test_exactly_once(cluster: KafkaCluster, tmp_path: Path) -> None:
    told = run("exactly_once.py", cluster, tmp_path).splitlines()
    first, second, third = (
        ", ".join(f"order {number}" for number in range(start, start + 4)) for start in (0, 4, 8)
    )
    assert told == [
        f"{first}: committed",
        f"{second}: the worker failed, all of it is aborted",
        f"{second}: committed",
        f"{third}: committed",
        "read_committed    12 invoices for 12 orders",
        "read_uncommitted  16 invoices for 12 orders",
    ]


@pytest.mark.nightly
def test_rebalancing_group(cluster: KafkaCluster, tmp_path: Path) -> None:
    told = run("rebalancing_group.py", cluster, tmp_path).splitlines()
    members = {
        "Ada joins": (1, 0, 0),
        "Grace joins": (1, 1, 0),
        "Hedy joins": (1, 1, 1),
        "Ada leaves": (0, 1, 1),
        "Grace leaves": (0, 0, 1),
    }
    assert [line[:13].strip() for line in told] == ["", "partition", *members]
    for line, here in zip(told[2:], members.values(), strict=True):
        shares = [part.split() for part in line[14:].split("    ")]
        assert all(seats.count("■") == 1 for seats in zip(*shares, strict=True)), line
        assert tuple(int("■" in share) for share in shares) == here, line


def test_read_a_log_directory(cluster: KafkaCluster, tmp_path: Path) -> None:
    told = run("read_a_log_directory.py", cluster, tmp_path)
    folder = Path(told.splitlines()[0])
    assert folder.is_relative_to(cluster.data_dir)
    listed = dict(re.findall(r"  (\S+) +\d+ bytes   (.*)\n", told))
    there = {path.name for path in folder.iterdir()}
    assert set(listed) <= there
    # The first flush writes this file, perhaps after the list.
    assert there - set(listed) <= {"leader-epoch-checkpoint"}
    assert all(listed.values())
    newest = max(folder.glob("*.log"))
    assert newest.stem != "0" * 20
    assert f"Dumping {newest}\nLog starting offset: {int(newest.stem)}\n" in told
    assert "isvalid: true" in told
    assert told.endswith("key: kappa payload: letter 10 of the alphabet\n")


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_spark_stream(cluster: KafkaCluster, tmp_path: Path) -> None:
    try:
        find_java_home()
    except JavaNotFoundError as error:
        pytest.skip(str(error))
    told = run("spark_stream.py", cluster, tmp_path, timeout_seconds=SPARK_TIMEOUT_SECONDS)
    rows = re.findall(r"\| *(\w+)\| *(\d+)\| *([\d.]+)\|", told)
    assert rows == [
        ("Lima", "100", "23.5"),
        ("Nairobi", "100", "14.5"),
        ("Oslo", "100", "5.5"),
        ("Lima", "200", "25.0"),
        ("Nairobi", "200", "16.0"),
        ("Oslo", "200", "7.0"),
    ]


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_topic_as_table(cluster: KafkaCluster, tmp_path: Path) -> None:
    try:
        find_java_home()
    except JavaNotFoundError as error:
        pytest.skip(str(error))
    data = str(cluster.data_dir)
    told = run("topic_as_table.py", cluster, tmp_path, timeout_seconds=500, PYBROKER_DATA_DIR=data)
    rows = re.findall(r"\| *(\w+)\| *(\d+)\| *([\d.]+)\|", told)
    assert rows == [("AA", "100", "49.5"), ("LH", "100", "49.5"), ("UA", "100", "49.5")]


@pytest.mark.nightly
def test_watch_a_failover(tmp_path: Path) -> None:
    with KafkaCluster(brokers=3) as cluster:
        data = str(cluster.data_dir)
        told = run("watch_a_failover.py", cluster, tmp_path, PYBROKER_DATA_DIR=data)
        (before, after) = re.findall(r"broker (\d) leads +\.{20,}\n", told)
        assert before != after
        assert f"\npybroker kill {before} " in told
        assert f"\npybroker restart {before} " in told
        ((acknowledged, stored, silence),) = re.findall(
            r"(\d+) records acknowledged, (\d+) in the log; the longest silence was (.*) s\n", told
        )
        assert int(acknowledged) == int(stored) > 2000
        assert float(silence) > 0
        told = CliRunner().invoke(main, ["status", "--data-dir", data]).stdout
        assert "all led and fully replicated" in told


@pytest.mark.nightly
def test_secured_cluster(tmp_path: Path) -> None:
    with KafkaCluster(brokers=2, secure=True) as cluster:
        argument = str(cluster.data_dir)
        told = run("secured_cluster.py", None, tmp_path, argument).splitlines()
        told = [re.sub(r"(alice|diary)-\w+", r"\1", line) for line in told]
        assert told == [
            "alice writes to diary: TOPIC_AUTHORIZATION_FAILED",
            "with an ACL for it: done",
            "alice reads it: GROUP_AUTHORIZATION_FAILED",
            "She may after: pybroker acls add --allow alice --consumer --topic diary --group alice",
        ]


@pytest.mark.nightly
def test_tests_with_a_cluster_of_their_own(tmp_path: Path) -> None:
    """Those of Quix Streams and Spark by hand: `docs/TESTING.md` says why."""
    jars = cache_directory() / f"kafka-{KAFKA_VERSION}"
    options = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:trio"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options, str(EXAMPLES / "testing"),
         "--ignore", str(EXAMPLES / "testing" / "test_spark.py")],
        cwd=tmp_path,
        env={**os.environ, **({"KAFKA_CLIENTS": str(jars)} if jars.exists() else {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 9, done.stdout


def test_the_workflow_has_what_its_tests_take() -> None:
    """`python -m tests.package.fresh` runs its steps."""
    steps = yaml.safe_load((EXAMPLES / "testing" / "github-actions.yml").read_text())["jobs"][
        "test"
    ]["steps"]
    used = [step["uses"].partition("@")[0] for step in steps if "uses" in step]
    assert used == ["actions/checkout", "actions/setup-python"]
    install, test = (step["run"] for step in steps if "run" in step)
    assert install.startswith("pip install pybroker-kafka ")
    assert {"pytest", "pytest-xdist", "kafka-python"} <= set(install.split())
    assert test.split()[0] == "pytest"


def test_every_example_is_listed_short_and_run() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    listed = re.findall(
        r"^\| \[(\w+\.py)\]\((\w+\.py)\) \|", (EXAMPLES / "README.md").read_text(), re.M
    )
    assert listed == [(name, name) for name, _ in listed]
    assert sorted(name for name, _ in listed) == sorted(names)
    for name in names:
        assert f'run("{name}", ' in Path(__file__).read_text()
        assert code_lines(EXAMPLES / name) in LINES, name


def code_lines(path: Path) -> int:
    """How many there are beside docstring, imports, comments and empty lines."""
    statements = ast.parse(path.read_text()).body
    first, *rest = statements
    assert isinstance(first, ast.Expr), f"{path.name} begins with a docstring"
    code = [part for part in rest if not isinstance(part, ast.Import | ast.ImportFrom)]
    lines = path.read_text().splitlines()[code[0].lineno - 1 :]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)
