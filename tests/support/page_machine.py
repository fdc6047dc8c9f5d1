"""A machine of its own for a reader of our pages, on which each block is pasted and run.

`Machine` has namespaces in which all ports are free, so that 9092 is what a page says, and whose
processes end with it; an empty home; one terminal, whose variables stay from block to block; the
programs of one environment first in its PATH, and a `pip` that does nothing, for everything is
installed in that environment.
Each line of output that a `console` block shows must appear, with any numbers; `...` stands for
more of it. Without root or Linux there are no namespaces; then the pages are read on the machine
itself, if Kafka's ports are free there.
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

from tests.support.page_blocks import Block
from tests.support.patience import Limit
from tests.support.processes import ROOT

BLOCK_SECONDS = 180.0
POLL_SECONDS = 0.05
NAMESPACES = ("--net", "--pid", "--mount")
UNSHARE = ("unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc")
PORTS = (2181, 8080, 8081, *range(9092, 9098))
MARK = "--- the block has ended:"
PROGRAMS = Path(sys.executable).parent


class PortTakenError(Exception):
    """A port of the pages' is taken, and there are no namespaces."""


def can_isolate() -> bool:
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("nsenter"):
        return False
    command = [*UNSHARE, "ip", "link", "set", "lo", "up"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Machine:
    def __init__(self, folder: Path, programs: Path = PROGRAMS) -> None:
        self.folder = folder
        self._programs = programs
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
                        raise PortTakenError(
                            f"port {port} is taken, and there are no network namespaces"
                        )
        home, work, stubs = (folder / name for name in ("home", "work", "stubs"))
        for made in (home, work, stubs):
            made.mkdir()
        for name in ("examples", "spark_jobs", "docker"):
            (work / name).symlink_to(ROOT / name)
        (stubs / "pip").write_text("#!/bin/sh\nexit 0\n")
        (stubs / "pip").chmod(0o755)
        path = os.pathsep.join([str(stubs), str(programs), os.environ["PATH"]])
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

    def paste_block(self, block: Block) -> None:
        """As its language says; what it shows must appear."""
        until = block.noted("until: ")
        if block.language == "python":
            file = str(self.write(block))
            if until is None:
                self.run("python", file)
            else:
                self.run_until(until, "python", "-u", file)
        elif block.language == "console":
            for command, shown in commands_and_output(block):
                comes(shown, self.paste(command), block)
        elif until is None:
            self.paste(block.text)
        else:
            self.run_until(until, "bash", "-euc", block.text)

    def run_tests(self, found: list[Block]) -> None:
        """Blocks that are tests, by one pytest."""
        files = [str(self.write(block, "test_")) for block in found]
        options = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "no:trio"]
        self.run("python", "-P", "-m", "pytest", *options, "--import-mode=importlib", *files)

    def write(self, block: Block, prefix: str = "") -> Path:
        name = re.sub(r"\W+", "_", block.place.replace(".md", ""))
        file = self.folder / "work" / f"{prefix}{name}.py"
        file.write_text(block.text)
        return file

    def close(self) -> None:
        subprocess.run(
            [*self._prefix, str(self._programs / "pybroker"), "stop"],
            env=self._environment, capture_output=True, timeout=BLOCK_SECONDS, check=False,
        )  # fmt: skip
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._terminal.pid, signal.SIGKILL)
        self._terminal.wait()
        if self._holder is not None:
            # Everything that a page has left running ends with the first process there.
            self._holder.communicate(timeout=BLOCK_SECONDS)


def is_test(block: Block) -> bool:
    return block.language == "python" and re.search(r"^def test_", block.text, re.M) is not None


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
