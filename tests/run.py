"""Run every check of the project, one stage after the other, and print what each stage took.

`make test` calls it: it shows each promise once, to stay short. `make nightly` runs
the rest: the cases marked `nightly` (`tests.support.nightly`), which have a sibling in `make test`,
and the groups below, each of which has a command of its own, too.
`make mixed` has all tests beside Apache Kafka, of which `make test` has one, and what our client
and commands do at Apache Kafka (marked at_kafka); both skip them, with the reason, where Java or
Maven is missing. `make abuse` has the abuses that want the machine for themselves, too, and all
mutated requests; `make faults` has all fault cases, and twenty times the torture; `make pages` runs
each block of all pages and each chapter of the course both ways; `make properties` has all examples
of each property, of which `make test` has a twentieth, and more seeds; `make test-compiled` runs
what `make test` runs from the sources alone with what is compiled; `make posix` runs what meets the
operating system without the things that Linux alone has.
A stage that fails does not hide the later ones: all run, then the table says which failed. One
that leaves something in the checkout has failed, too. Stages that leave a core idle, since they
wait for processes to start and end, have more workers than there are cores, or others run beside
them in lanes, the stages of a lane in turn; what they print comes one after the other. The table
has the CPU seconds of each: those of two cores in its time are twice its seconds, and what is
missing was waited for, or taken by processes that nobody waited for (Spark's). Below it are the
tests that only waited beside what else the machine had to do: long on the wall's clock, and not on
one that knows how busy it is (`tests.support.patience`), on which all limits of time are.
Each run has both ways of a request: what is compiled runs in the wire tests, the real clients, the
torture and the faults, the sources in all unit and property tests, the simulation and the abuse.
The clusters of all stages have the features of the newest Kafka finalized; with `--features 3.9`
(`make test FEATURES=3.9`) nothing is, and brokers answer as Kafka 3.9.
Below that the failed stages' last lines come again, and the closing line counts stages: who has
only the end of a CI log finds the verdict and its reasons there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pybroker_kafka.local.cluster_state import release_of_new_clusters
from pybroker_kafka.protocol.features import RELEASES
from tests.support.patience import NOTES, told

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
MIXED = "tests/mixed"
# Each kind follows and takes over.
MIXED_IN_EVERY_RUN = [f"{MIXED}/test_replication.py::test_sigkill_of_either_kind[real-1]"]
# What takes minutes, and wants the machine for itself: `make abuse`.
ABUSE_BY_HAND = [
    "--ignore=tests/abuse/test_largest_requests.py",
    "--ignore=tests/abuse/test_slow_readers.py",
    "--deselect=tests/abuse/test_half_open.py::test_half_open_requests[large]",
    "--deselect=tests/abuse/test_known_abuse.py::test_long_requests_of_an_administrator",
    "--deselect=tests/abuse/test_tls_abuse.py::test_half_handshakes[begun-by-hand]",
    "--deselect=tests/abuse/test_tls_abuse.py::test_half_handshakes[unread-by-hand]",
]
# Clients that begin something and leave it there: nothing much is done meanwhile.
ABUSE_THAT_WAITS = ["tests/abuse/test_half_open.py", "tests/abuse/test_tls_abuse.py"]
MUTATIONS = [f"tests/abuse/test_{kind}mutations.py" for kind in ("", "sasl_", "tls_")]
SPARK_FILES = [f"tests/compat/test_spark_{name}.py" for name in ("sources", "random", "kills")]
# Every pipeline while machines of Spark's and brokers die: `make spark-cluster`.
SPARK_CLUSTER = "tests/compat/test_spark_cluster.py"
SPARK_PAGES = [
    f"tests/compat/test_page_blocks.py::test_a_page_does_what_it_says[docs/{page}.md]"
    for page in ("SPARK", "SPARK_SOURCE")
]
SPARK_EXAMPLE = "tests/compat/test_examples.py::test_spark_stream"
# Of one seed, short, and patient with a busy machine; the first 10 of those of `make faults`.
TORTURE = ["--seed=1", "--rounds=1", "--ready-seconds=15"]
TORTURE_IN_EVERY_RUN = ["--sequences=10", *TORTURE]
UNITS_OF_BOTH = "tests/unit/test_compiled.py"
BOTH_WAYS = [UNITS_OF_BOTH, "tests/simulation/test_both_ways.py"]
IN_EVERY_RUN = ["-m", "not nightly"]
# Where tests are marked so; those of tests/faults, abuse and properties have commands of their own.
NIGHTLY = [
    *(f"tests/{folder}" for folder in ("unit", "simulation", "package", "wire", "compat")),
    f"--ignore={SPARK_CLUSTER}",
]
# What takes half of the time of all unit tests: three processes collect each its own.
UNITS_OF_THE_BROKER = "tests/unit/broker"
UNITS_OF_STORAGE = "tests/unit/storage"
# A process that cleans logs leaves the processor to all others: its tests wait.
UNITS_OF_THE_CLEANER = "tests/unit/broker/cleaner"
# Python compiles what is imported first. Processes that begin at the same moment would each compile
# the modules of the tests, of the house and of its libraries; one that collects tests before them
# does it once.
COLLECT = [sys.executable, "-m", "pytest", "-qqq", "--collect-only"]
COLLECTED_FIRST = ["tests/simulation", "tests/properties"]
COLLECTED_BY_MANY = ["tests/compat", "tests/wire", "tests/faults"]
# As many workers as there are cores, for what computes; more for what waits for other processes.
# Each worker collects all tests, which takes as long as quick ones run: others have lanes instead.
COMPUTING = ["-n", "2"]
WAITING = ["-n", "4"]
WAITING_LONG = ["-n", "5"]
# Files side by side: the tests of one share a broker.
BY_FILE = ["--dist=loadfile"]
# Those first that tests/compat/conftest.py puts first, instead of those with the most tests.
LONG_FIRST = [*BY_FILE, "--no-loadscope-reorder"]
PAGES = [f"tests/compat/test_{name}.py" for name in ("page_blocks", "learn", "learn_browser")]
CLIENTS = [f"tests/compat/test_{name}.py" for name in ("aiokafka", "confluent", "kafka_python")]
# As on a machine without epoll, sendfile and /proc.
WITH_POSIX = ["tests/unit/broker", "tests/wire", *CLIENTS]

# What runs the loops over records the most: once more without a compiler.
RECORDS = [
    "tests/unit/protocol/records",
    "tests/unit/storage/test_full_validation.py",
    "tests/unit/storage/test_pre_validated_batch.py",
    "tests/unit/storage/test_validation.py",
    "tests/properties/protocol/records",
]

# Each run tries other examples of properties: all of them in `make properties`.
SOME_EXAMPLES = "PYBROKER_ONE_EXAMPLE_IN=20"
# One in eight, where the sources have been tried with some of them.
FEWER_EXAMPLES = ["env", "PYBROKER_ONE_EXAMPLE_IN=8"]

ALL_COMPILED = ["env", "PYBROKER_COMPILED=all"]
COMPILE = [sys.executable, "setup.py", "-q", "compile"]
# The same code, in half the time: the C compiler's optimization shows in benchmarks alone.
QUICKLY = ["env", "PYBROKER_COMPILE_LEVEL=0"]
SIMULATION = [sys.executable, "-m", "tests.simulation.run"]
# In a checkout where it is compiled, too: some tests change what is in it.
SOURCES = ["env", "PYBROKER_COMPILED=loops"]
# Rooms of which nothing is compiled.
INTERPRETED = (
    "client/admin",
    "client/consumer",
    "client/security",
    "client/share",
    "coordinator/share",
    "coordinator/transaction",
    "replication/controller",
    "replication/share",
)
# What looks into the way of a request, once more where it is compiled; its doubles are interpreted.
COMPILED_ROOMS = [
    # They break the state by hand, which compiled classes do not allow.
    "--ignore-glob=*/test_invariants.py",
    *(f"--ignore-glob=*/{room}" for room in INTERPRETED),
    "tests/unit/broker/network",
    "tests/unit/broker/handlers",
    "tests/unit/broker/coordinators",
    "tests/unit/broker/replicas",
    "tests/unit/broker/share",
    "tests/unit/coordinator",
    "tests/unit/replication",
    "tests/unit/storage",
    "tests/unit/client",
    "tests/properties/broker",
    "tests/properties/client",
    "tests/properties/coordinator",
    "tests/properties/replication",
    "tests/properties/storage",
]

# Directories of tests that failed, with the logs of their brokers; pytest keeps three sessions' by
# default, and no more stages than that would be left.
KEEP_FAILED = ["-o", "tmp_path_retention_policy=failed", "-o", "tmp_path_retention_count=100"]

BY_DEFAULT = ("lint", "test")
# What `make test` leaves out, each once, but for Spark's cluster (20 minutes).
IN_THE_NIGHT = ("words", "compiled", "nightly", "properties", "mixed", "faults", "abuse", "posix")
MAX_WAITED_TOLD = 20
MAX_LINES_TOLD_AGAIN = 120
PROGRESS = re.compile(r"[.sxXEF]+ +\[ *\d+%\]")  # pytest's


class Stage(NamedTuple):
    name: str
    group: str
    command: list[str]
    lane: int = 0  # others run beside the last one of lane 0; those of one lane run in turn


class Result(NamedTuple):
    stage: Stage
    passed: bool
    seconds: float
    cpu_seconds: float  # of it and of those of its processes that were waited for


def stages() -> list[Stage]:
    python = sys.executable
    pytest = [python, "-m", "pytest", "-q", "--durations=8", "--durations-min=5", *KEEP_FAILED]
    return [
        Stage("compiled loops", "test", [*COMPILE, "--units=record_loops"]),
        Stage("collection of properties", "test", [*COLLECT, *COLLECTED_FIRST], lane=2),
        Stage("format", "lint", [str(BIN / "ruff"), "format", "--check", "."], lane=1),
        Stage("lint", "lint", [str(BIN / "ruff"), "check", "."], lane=1),
        Stage("layers", "lint", [str(BIN / "lint-imports")], lane=1),
        Stage(
            "unit tests of the broker",
            "test",
            [
                *[*SOURCES, SOME_EXAMPLES, *pytest, *IN_EVERY_RUN, UNITS_OF_THE_BROKER],
                f"--ignore={UNITS_OF_THE_CLEANER}",
            ],
        ),
        Stage(
            "unit tests of other rooms",
            "test",
            [
                *[*SOURCES, SOME_EXAMPLES, *pytest, *IN_EVERY_RUN, "tests/unit"],
                *[
                    f"--ignore={room}"
                    for room in (UNITS_OF_THE_BROKER, UNITS_OF_STORAGE, UNITS_OF_BOTH)
                ],
            ],
            lane=1,
        ),
        Stage("compiled request path", "test", [*QUICKLY, *COMPILE], lane=2),
        Stage("collection", "test", [*ALL_COMPILED, *COLLECT, *COLLECTED_BY_MANY], lane=2),
        Stage("simulation", "test", [*SOURCES, *pytest, *IN_EVERY_RUN, "tests/simulation"], lane=3),
        Stage(
            "property tests",
            "test",
            [*SOURCES, SOME_EXAMPLES, *pytest, *IN_EVERY_RUN, "tests/properties"],
            lane=3,
        ),
        Stage(
            "unit tests of storage and cleaner",
            "test",
            [
                *[*SOURCES, SOME_EXAMPLES, *pytest, *IN_EVERY_RUN],
                *[UNITS_OF_STORAGE, UNITS_OF_THE_CLEANER],
            ],
            lane=4,
        ),
        Stage(
            "real clients",
            "test",
            [
                *[*ALL_COMPILED, *pytest, *WAITING_LONG, *LONG_FIRST],
                *["-m", "not at_kafka and not nightly", "tests/compat"],
            ],
        ),
        Stage(
            "wire tests",
            "test",
            [*ALL_COMPILED, *pytest, *WAITING, *BY_FILE, *IN_EVERY_RUN, "tests/wire"],
            lane=1,
        ),
        Stage("mixed clusters", "test", [*pytest, *MIXED_IN_EVERY_RUN], lane=1),
        Stage("words", "words", [python, "-m", "tests.words.check"], lane=1),
        Stage(
            "compiled and not",
            "test",
            [*ALL_COMPILED, *pytest, *IN_EVERY_RUN, *BOTH_WAYS],
            lane=1,
        ),
        Stage("types", "lint", [str(BIN / "mypy")], lane=2),
        Stage(
            "faults",
            "test",
            [*ALL_COMPILED, *pytest, *COMPUTING, *IN_EVERY_RUN, "tests/faults"],
            lane=3,
        ),
        Stage(
            "abuse",
            "test",
            [
                *[*SOURCES, "ABUSE_P99_MS=100", *pytest],
                *[*IN_EVERY_RUN, "tests/abuse", *ABUSE_BY_HAND],
                *[f"--ignore={file}" for file in [*ABUSE_THAT_WAITS, *MUTATIONS]],
            ],
        ),
        Stage(
            "torture",
            "test",
            [*ALL_COMPILED, python, "-m", "tests.torture.run", *TORTURE_IN_EVERY_RUN],
            lane=1,
        ),
        Stage(
            "the installed wheel",
            "test",
            [*QUICKLY, *pytest, *IN_EVERY_RUN, "tests/package"],
            lane=1,
        ),
        Stage(
            "mutated requests",
            "test",
            [*SOURCES, "ABUSE_P99_MS=100", SOME_EXAMPLES, *pytest, *IN_EVERY_RUN, *MUTATIONS],
            lane=2,
        ),
        Stage(
            "abuse that waits",
            "test",
            ["env", "ABUSE_P99_MS=100", *pytest, *ABUSE_THAT_WAITS, *ABUSE_BY_HAND],
            lane=2,
        ),
        Stage(
            "records, interpreted",
            "test",
            [*FEWER_EXAMPLES, "PYBROKER_COMPILED=0", *pytest, *RECORDS],
            lane=2,
        ),
        Stage(
            "the request path",
            "compiled",
            COMPILE,
        ),
        Stage(
            "unit and property tests, compiled",
            "compiled",
            [*FEWER_EXAMPLES, *ALL_COMPILED, *pytest, *COMPILED_ROOMS],
        ),
        Stage(
            "abuse, compiled",
            "compiled",
            [*ALL_COMPILED, "ABUSE_P99_MS=100", *pytest, "tests/abuse", *ABUSE_BY_HAND],
        ),
        *(
            Stage(f"simulation{kind}, compiled", "compiled", [*ALL_COMPILED, *SIMULATION, *words])
            for kind, words in (
                ("", ["--seeds=100"]),
                (" of transactions", ["--seeds=50", "--transactions"]),
                (" of transactions 2", ["--seeds=50", "--transactions-2"]),
                (" of the client", ["--seeds=50", "--client"]),
            )
        ),
        Stage("properties, all", "properties", [*SOURCES, *pytest, "tests/properties"]),
        *(
            Stage(f"simulation{kind}", "properties", [*SOURCES, *SIMULATION, *words])
            for kind, words in (
                ("", ["--seeds=500"]),
                (" of transactions", ["--seeds=100", "--transactions"]),
                (" of transactions 2", ["--seeds=100", "--transactions-2"]),
                (" of the client", ["--seeds=50", "--client"]),
                (" of the client 2", ["--seeds=50", "--client-2"]),
            )
        ),
        Stage("mixed, all", "mixed", [*pytest, MIXED]),
        Stage("at Apache Kafka", "mixed", [*pytest, "-m", "at_kafka", "tests/compat"]),
        Stage("what is nightly", "nightly", [*pytest, "-m", "nightly and not at_kafka", *NIGHTLY]),
        Stage("all pages and chapters", "pages", [*pytest, *WAITING, *PAGES]),
        Stage("Spark's sources, all", "spark", [*pytest, *SPARK_FILES]),
        Stage("Spark's pages and example", "spark", [*pytest, *SPARK_PAGES, SPARK_EXAMPLE]),
        Stage("Spark's pipelines, all", "spark", [*pytest, "tests/compat/test_pipelines.py"]),
        Stage("a Spark cluster", "spark-cluster", [*pytest, "-v", SPARK_CLUSTER]),
        Stage("faults, all", "faults", [*pytest, "tests/faults"]),
        Stage("fault cases, all", "faults", [python, "-m", "tests.faults.run", "--schedules=5"]),
        Stage(
            "torture, all",
            "faults",
            [python, "-m", "tests.torture.run", "--sequences=200", *TORTURE],
        ),
        Stage("abuse, all", "abuse", [*pytest, "tests/abuse"]),
        Stage(
            "with POSIX alone",
            "posix",
            ["env", "PYBROKER_MACHINE=posix", *pytest, *COMPUTING, *BY_FILE, *WITH_POSIX],
        ),
    ]


def run(stages: list[Stage], temporary: Path) -> list[Result]:
    """Run lanes of stages side by side; the first stage's output is seen as it comes."""
    before = _visible()
    _headline(stages[0])
    lanes = [list(lane) for _, lane in groupby(stages, lambda stage: stage.lane)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        running = [pool.submit(_run_in_turn, lane, temporary, stages[0]) for lane in lanes]
        results = [result for future in running for result in future.result()]
    for stage in stages[1:]:
        _headline(stage)
        print("\n".join(_told(stage, temporary)))
    left = sorted(_visible() - before)
    if left:
        print(f"left in the checkout: {', '.join(left)}")
        results = [result._replace(passed=False) for result in results]
    return results


def _run_in_turn(lane: list[Stage], temporary: Path, seen: Stage) -> list[Result]:
    return [_run_one(stage, temporary, is_seen=stage is seen) for stage in lane]


def _output(stage: Stage, temporary: Path) -> Path:
    return temporary / f"{stage.name}.out"


def _told(stage: Stage, temporary: Path) -> list[str]:
    """What a stage printed, without pytest's lines of progress."""
    lines = _output(stage, temporary).read_text(errors="replace").splitlines()
    return [line for line in lines if not PROGRESS.fullmatch(line)]


def _run_one(stage: Stage, temporary: Path, *, is_seen: bool) -> Result:
    environment = dict(
        os.environ,
        PYTHONUNBUFFERED="1",
        PYTEST_DEBUG_TEMPROOT=str(temporary),
        TMPDIR=str(temporary),
        **{NOTES: str(temporary / NOTES)},
    )
    # Without compiled files each of the many broker processes would compile the house anew.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    started = time.monotonic()
    with _output(stage, temporary).open("wb") as file:
        process = subprocess.Popen(
            stage.command,
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        with _shown(_output(stage, temporary)) if is_seen else nullcontext():
            _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, cpu_seconds = time.monotonic() - started, usage.ru_utime + usage.ru_stime
    return Result(stage, process.returncode == 0, seconds, cpu_seconds)


@contextmanager
def _shown(path: Path) -> Iterator[None]:
    """Print what is written to the file, as it comes."""
    ended = threading.Event()

    def follow() -> None:
        with path.open(errors="replace") as file:
            is_last = False
            while not is_last:
                is_last = ended.wait(0.2)
                print(file.read(), end="", flush=True)

    follower = threading.Thread(target=follow)
    follower.start()
    try:
        yield
    finally:
        ended.set()
        follower.join()


def _headline(stage: Stage) -> None:
    words = [Path(stage.command[0]).name, *stage.command[1:]]
    print(f"\n=== {stage.name}: {' '.join(words)}", flush=True)


def _visible() -> set[str]:
    """What lies in the checkout, caches excepted."""
    names = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    return names - {"__pycache__", "build"}  # what is compiled lies there


def groups_of(asked: str | None) -> tuple[str, ...]:
    """The groups of stages that a command runs."""
    if asked is None:
        return BY_DEFAULT
    return {"nightly": IN_THE_NIGHT, "lint": ("lint", "words")}.get(asked, (asked,))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    groups = sorted({stage.group for stage in stages()})
    parser.add_argument("--only", choices=groups, help="run one group, or all of a night")
    parser.add_argument(
        "--features",
        choices=RELEASES,
        default=release_of_new_clusters(),
        help="the release of Kafka whose features new clusters have; with 3.9 nothing is finalized",
    )
    arguments = parser.parse_args()
    os.environ["PYBROKER_FEATURES"] = arguments.features
    temporary = Path(tempfile.mkdtemp(prefix="pb-"))  # short: sockets have paths in it
    started = time.monotonic()
    results: list[Result] = []
    together: list[Stage] = []
    chosen = [stage for stage in stages() if stage.group in groups_of(arguments.only)]
    for stage in chosen:
        if together and not stage.lane:
            results += run(together, temporary)
            together = []
        together.append(stage)
    results += run(together, temporary)
    print("\n=== summary")
    for stage, passed, seconds, cpu_seconds in results:
        beside = f" (beside, lane {stage.lane})" if stage.lane else ""
        verdict = "ok    " if passed else "FAILED"
        print(f"{verdict} {seconds:7.1f} s {cpu_seconds:7.1f} CPU s  {stage.name}{beside}")
    failed = sum(not result.passed for result in results)
    waited = told(temporary / NOTES)[:MAX_WAITED_TOLD]
    for line in waited:
        print(f"only waited {line}")
    for stage in (result.stage for result in results if not result.passed):
        print(f"\n=== the end of {stage.name}, which failed")
        print("\n".join(_told(stage, temporary)[-MAX_LINES_TOLD_AGAIN:]))
    if failed:
        print(f"what the failed tests left is in {temporary}")
    else:
        shutil.rmtree(temporary, ignore_errors=True)
    print(f"total  {time.monotonic() - started:7.1f} s")
    print(f"stages: {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
