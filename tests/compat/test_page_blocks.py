"""Each block of our pages, pasted and run as a reader would, in the order of the page.

A reader has a machine of its own here: namespaces in which all ports are free, so that 9092 is what
the page says, and whose processes end with it; an empty home; one terminal, whose variables stay
from block to block.
Pages that start no cluster of their own share one machine, with the cluster that `pybroker start
--detach` makes. `pip install` does nothing: all is installed, and `tests/package` installs the
wheel. Each line of output that a `console` block shows must appear, with any numbers; `...` stands
for more of it.
Without root or Linux there are no namespaces; then the pages are read on the machine itself, if
Kafka's ports are free there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pybroker_kafka.spark_jobs.java import JavaNotFoundError, find_java_home
from tests.support.page_blocks import Block, pages, programs, to_run
from tests.support.patience import Limit
from tests.support.processes import ROOT

BLOCK_SECONDS = 180.0
POLL_SECONDS = 0.05
NAMESPACES = ("--net", "--pid", "--mount")
UNSHARE = ("unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc")
PORTS = (2181, 8080, 8081, *range(9092, 9098))
MARK = "--- the block has ended:"
STARTS = re.compile(r"\bpybroker (start|broker|zookeeper)\b")
NEEDS_JAVA = ("kafka_session(", "SparkSession", "spark_jobs.pipelines")
READ = [page for page in pages() if to_run(page)]

pytestmark = pytest.mark.timeout(900)


def can_isolate() -> bool:
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("nsenter"):
        return False
    command = [*UNSHARE, "ip", "link", "set", "lo", "up"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._prefix: list[str] = []
        self._holder: subprocess.Popen[bytes] | None = None
        if can_isolate():
            # It is the first process there, and ends with this test's end of its pipe.
            hold = "ip link set lo up && echo up && exec cat"
            self._holder = subprocess.Popen(
                [*UNSHARE, "sh", "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert self._holder.stdout is not None
            assert self._holder.stdout.readline() == b"up\n"
            (first,) = psutil.Process(self._holder.pid).children()
            here = ["sh", "-c", f'cd {folder / "work"} && exec "$@"', "sh"]
            self._prefix = ["nsenter", *NAMESPACES, f"--target={first.pid}", "--", *here]
        else:
            for port in PORTS:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        pytest.skip(f"port {port} is taken, and there are no network namespaces")
        home, work, stubs = (folder / name for name in ("home", "work", "stubs"))
        for made in (home, work, stubs):
            made.mkdir()
        for name in ("examples", "spark_jobs", "docker"):
            (work / name).symlink_to(ROOT / name)
        (stubs / "pip").write_text("#!/bin/sh\nexit 0\n")
        (stubs / "pip").chmod(0o755)
        path = os.pathsep.join([str(stubs), str(Path(sys.executable).parent), os.environ["PATH"]])
        ours = ("PYBROKER_DATA_DIR", "PYBROKER_BOOTSTRAP", "PYBROKER_PROFILE", "KAFKA_BOOTSTRAP")
        kept = {name: text for name, text in os.environ.items() if name not in ours}
        self._environment = {**kept, "HOME": str(home), "PATH": path, "NO_COLOR": "1"}
        self._terminal = self._open("bash", "--norc", stdin=subprocess.PIPE)
        self._say("set -euo pipefail")

    def _open(self, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        self._output = self.folder / f"output-{words[0]}"
        with self._output.open("ab") as output:
            return subprocess.Popen(
                [*self._prefix, *words],
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder / "work",
                env=self._environment,
                start_new_session=True,
            )

    def _say(self, line: str) -> None:
        assert self._terminal.stdin is not None
        self._terminal.stdin.write(f"{line}\n".encode())
        self._terminal.stdin.flush()

    def paste(self, script: str) -> str:
        """Run lines in the terminal; what they print. They must succeed."""
        file = self.folder / "script.sh"
        file.write_text(script)
        output = self.folder / "output-bash"
        begin = output.stat().st_size
        self._say(f"source {file} < /dev/null; echo '{MARK}'")
        limit = Limit(BLOCK_SECONDS)
        while True:
            printed = output.read_bytes()[begin:].decode(errors="replace")
            if MARK in printed:
                return printed.partition(MARK)[0]
            assert self._terminal.poll() is None, f"it failed:\n{script}\nprinted:\n{printed}"
            assert not limit.is_over, f"it does not end:\n{script}\nprinted:\n{printed}"
            time.sleep(POLL_SECONDS)

    def run(self, *words: str) -> None:
        done = subprocess.run(
            [*self._prefix, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.folder / "work",
            env=self._environment,
            timeout=BLOCK_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"

    def run_until(self, text: str, *words: str) -> None:
        """Until it has printed this; then it gets Ctrl-C, and ends."""
        process = self._open(*words)
        output = self._output
        begin = output.stat().st_size
        limit = Limit(BLOCK_SECONDS)
        try:
            while text not in output.read_bytes()[begin:].decode(errors="replace"):
                printed = output.read_text(errors="replace")[-3000:]
                assert process.poll() is None, f"{' '.join(words)} ended:\n{printed}"
                assert not limit.is_over, f"{' '.join(words)} prints no {text!r}:\n{printed}"
                time.sleep(POLL_SECONDS)
            # Not nsenter, which would end before the program that it has started.
            own = psutil.Process(process.pid)
            for program in own.children(recursive=True) or [own]:
                program.send_signal(signal.SIGINT)
            process.wait(BLOCK_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def close(self) -> None:
        subprocess.run(
            [*self._prefix, sys.executable, "-m", "pybroker_kafka", "stop"],
            env=self._environment, capture_output=True, timeout=BLOCK_SECONDS, check=False,
        )  # fmt: skip
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._terminal.pid, signal.SIGKILL)
        self._terminal.wait()
        if self._holder is not None:
            # Everything that a page has left running ends with the first process there.
            self._holder.communicate(timeout=BLOCK_SECONDS)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    with contextlib.closing(machine):
        machine.paste("pybroker start --detach")
        yield machine


@pytest.fixture
def machine(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """One of its own for a page that starts a cluster; the others share one."""
    if any(STARTS.search(block.text) for block in to_run(page) if block.language != "python"):
        with contextlib.closing(Machine(tmp_path)) as own:
            yield own
    else:
        yield request.getfixturevalue("shared")


@pytest.mark.parametrize("page", READ, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page: Path, machine: Machine) -> None:
    found = programs(to_run(page))
    tests = [block for block in found if is_test(block)]
    for block in found:
        if block not in tests:
            paste(machine, block)
    if tests:
        files = [str(written(machine, block, "test_")) for block in tests]
        options = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:trio"]
        machine.run("python", "-P", "-m", "pytest", *options, "--import-mode=importlib", *files)


def is_test(block: Block) -> bool:
    return block.language == "python" and re.search(r"^def test_", block.text, re.M) is not None


def written(machine: Machine, block: Block, prefix: str = "") -> Path:
    name = re.sub(r"\W+", "_", block.place.replace(".md", ""))
    file = machine.folder / "work" / f"{prefix}{name}.py"
    file.write_text(block.text)
    return file


def paste(machine: Machine, block: Block) -> None:
    until = block.noted("until: ")
    if block.language == "python":
        if any(word in block.text for word in NEEDS_JAVA):
            try:
                find_java_home()
            except JavaNotFoundError as error:
                pytest.skip(str(error))
        file = str(written(machine, block))
        if until is None:
            machine.run("python", file)
        else:
            machine.run_until(until, "python", "-u", file)
    elif block.language == "console":
        for command, shown in commands_and_output(block):
            comes(shown, machine.paste(command), block)
    elif until is None:
        machine.paste(block.text)
    else:
        machine.run_until(until, "bash", "-euc", block.text)


def commands_and_output(block: Block) -> Iterator[tuple[str, list[str]]]:
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def comes(shown: list[str], printed: str, block: Block) -> None:
    lines = [without_numbers(line) for line in printed.splitlines()]
    for line in shown:
        wanted = without_numbers(line.removesuffix("..."))
        found = any(
            one.startswith(wanted) if line.endswith("...") else one == wanted for one in lines
        )
        assert found or not wanted, f"{block.place}: {line}\nprinted:\n{printed}"


def without_numbers(line: str) -> str:
    return " ".join(re.sub(r"[\d.]+", "0", line).split())


def test_output_is_compared() -> None:
    block = Block(ROOT / "README.md", 1, "console", "$ echo 'a 1'\na 2\n...\n$ true\n", "")
    assert [*commands_and_output(block)] == [("echo 'a 1'", ["a 2", "..."]), ("true", [])]
    comes(["a  2", "...", "x ..."], "x y\na 17\n", block)
    with pytest.raises(AssertionError):
        comes(["b 2"], "a 2\n", block)
