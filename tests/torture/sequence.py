"""One sequence: a cluster that is started, written to, hurt, ended in some way, damaged while it is
down, started under some conditions, and so on; every choice follows from the seed.

Promises that are checked after each step:
- a start under ordinary conditions is ready in time, what it waits for a processor left out; under
  others, or on a damaged directory, it is ready or refuses with one line that says what to do, and
  starts once that is done;
- what was acknowledged is there, once;
- what has ended has ended: no process is left;
- whatever is done to the wall clock, nothing becomes old of it;
- a process that is none of ours, though files name its id, is still there.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_control import command_node
from pybroker_kafka.local.cluster_state import ClusterError
from tests.support import clock_file
from tests.support.processes import free_port
from tests.torture import damage
from tests.torture.commands import (
    Command,
    Limits,
    children_of,
    descendants,
    describe,
    kill_all,
    starved_seconds,
    wait_until,
)
from tests.torture.records import Ledger

PATIENCE = 12  # times the seconds of an ordinary start; then it is taken to hang
END_SECONDS = 20.0
LOG_END_CHARACTERS = 1500
HALF_START_SECONDS = 0.5
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
FILE_LIMITS = (0, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024)
SIZE_LIMITS = (6 << 10, 16 << 10, 64 << 10, 1 << 20, 4 << 20)
TMPFS_BYTES = 24 << 20
TMPFS_SHARE = 0.15
DETACHED_SHARE = 0.25
SUSPENDED_SHARE = 0.3
DAMAGE_SHARE = 0.45
CONDITION_SHARE = 0.45
# By how many seconds a wall clock is set, in either direction.
CLOCK_STEPS = (2, 600, 10 * 86_400, 400 * 86_400, 10 * 365 * 86_400)


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass(slots=True)
class Report:
    """What a sequence has seen."""

    seed: int
    trace: list[str] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    acknowledged: int = 0
    failure: str = ""


class Sequence:
    def __init__(
        self, seed: int, directory: Path, *, rounds: int, ready_seconds: float, tmpfs: bool
    ) -> None:
        self.report = Report(seed)
        self._rng = random.Random(seed)
        self._home = directory
        self._rounds = rounds
        self._ready_seconds = ready_seconds
        self._may_mount = tmpfs
        self._brokers = self._rng.choices([1, 2, 3], [6, 3, 1])[0]
        self._ports = [
            "--port",
            str(free_port(self._brokers)),
            "--zookeeper-port",
            str(free_port()),
        ]
        self._supervisor: Command | None = None
        self._keep: set[int] = set()
        self._commands = 0
        self._clock = directory.parent / f"{directory.name}.clock"

    # The whole

    def run(self) -> Report:
        self._home.mkdir(parents=True)
        clock_file.write(self._clock, 0)
        is_mounted = self._may_mount and self._rng.random() < TMPFS_SHARE and _mount(self._home)
        self._has_room = is_mounted
        stranger: subprocess.Popen[bytes] | None = None
        try:
            stranger = subprocess.Popen(["sleep", "3600"], start_new_session=True)
            self._keep = {stranger.pid}
            data = self._home / "data"
            self._directory = damage.Directory(data, self._rng, stranger.pid)
            self._ledger = Ledger(data, int(time.time() * 1000))
            self._go()
            assert stranger.poll() is None, "a process that is none of ours was ended"
        except Exception as error:
            self.report.failure = f"{type(error).__name__}: {error}\n{self._logs()}"
        finally:
            kill_all(self._keep)
            if stranger is not None:
                stranger.kill()
                stranger.wait()
            if is_mounted:
                subprocess.run(["umount", "--lazy", str(self._home)], check=False)
            if not self.report.failure:
                shutil.rmtree(self._home, ignore_errors=True)
                self._clock.unlink()
                for output in self._home.parent.glob(f"{self._home.name}.*.out"):
                    output.unlink()
        self.report.acknowledged = len(self._ledger.acknowledged)
        return self.report

    def _go(self) -> None:
        self._start_ordinarily()
        for _ in range(self._rounds):
            self._disturb()
            self._end()
            changed = None
            chance = self._rng.random()
            if chance < DAMAGE_SHARE:
                changed = self._damage()
            elif chance < DAMAGE_SHARE + CONDITION_SHARE:
                self._start_under_a_condition()
            self._start_ordinarily(changed)
            self._ledger.check()
        self._end_cleanly()

    def _note(self, text: str) -> None:
        self.report.trace.append(text)

    def _run(self, *words: str, limits: Limits | None = None) -> Command:
        self._commands += 1
        output = self._home.parent / f"{self._home.name}.{self._commands}.out"
        return Command.run(
            [*words, "--data-dir", str(self._directory.path)], output, self._clock, limits
        )

    # Start

    def _start_ordinarily(self, changed: damage.Damage | None = None) -> None:
        """It must be ready in time; or it says what a damage has to do with it, and then."""
        may_refuse = changed is not None and changed.may_refuse
        if not self._try_to_start(self._ports, may_refuse=may_refuse):
            self._note("what it asked for is done")
            self._directory.restore()
            assert self._try_to_start(self._ports)
        self._directory.forget()

    def _try_to_start(
        self, options: list[str], *, limits: Limits | None = None, may_refuse: bool = False
    ) -> bool:
        if "--brokers" not in options:
            options = [*options, "--brokers", str(self._brokers)]
        if self._rng.random() < DETACHED_SHARE:
            options = [*options, "--detach"]
        self._note(f"start {' '.join(options)} {limits or ''}")
        command = self._run("start", *options, limits=limits)
        patience = self._ready_seconds
        wait_until(
            lambda: "ready after" in command.told or command.poll() is not None,
            PATIENCE * patience,
            lambda: f"start is neither ready nor refused: {command.told}",
        )
        took = time.monotonic() - command.started
        if "ready after" in command.told:
            self.report.starts.append(took)
            if took > patience:
                starved = starved_seconds(descendants(self._keep))
                if took - starved > patience:
                    raise Broken(f"ready only after {took:.1f} s, {starved:.1f} of them starved")
            if "--detach" in options:
                status = command.wait()
                assert status == 0, f"start --detach ended with status {status}"
                state = cluster_state.load(self._directory.path)
                command = command.detached(state.supervisor_pid)
            self._supervisor = command
            return True
        status = command.wait()
        last = command.told.strip().rpartition("\n")[2]
        if status != 2 or not last.startswith("Error: ") or "Traceback" in command.told:
            raise Broken(f"start ended with status {status} and told: {command.told[-3000:]}")
        self.report.refusals.append(last.replace(str(self._home), "HOME"))
        self._note(f"refused: {last}")
        if not may_refuse:
            raise Broken(f"start refused: {last}")
        self._wait_until_gone()
        return False

    def _start_under_a_condition(self) -> None:
        condition = self._rng.choice(CONDITIONS)
        self._note(condition.__name__.strip("_").replace("_", " "))
        condition(self)
        if self._supervisor is not None:
            self._write()
            self._end()

    def _with_other_ports(self) -> None:
        port = self._rng.choice(["0", str(free_port(self._brokers))])
        zookeeper = self._rng.choice(["0", str(free_port())])
        self._try_to_start(["--port", port, "--zookeeper-port", zookeeper], may_refuse=True)

    def _with_other_brokers(self) -> None:
        brokers = str(self._rng.choice([1, 2, 3]))
        self._try_to_start(
            ["--port", "0", "--zookeeper-port", "0", "--brokers", brokers], may_refuse=True
        )

    def _with_a_taken_port(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            option = self._rng.choice(["--port", "--zookeeper-port"])
            assert not self._try_to_start([*self._ports, option, port], may_refuse=True)

    def _with_few_descriptors(self) -> None:
        limit = self._rng.choice(FILE_LIMITS)
        self._try_to_start(self._ports, limits={resource.RLIMIT_NOFILE: limit}, may_refuse=True)

    def _with_small_files(self) -> None:
        limit = self._rng.choice(SIZE_LIMITS)
        self._try_to_start(self._ports, limits={resource.RLIMIT_FSIZE: limit}, may_refuse=True)

    def _on_a_full_disk(self) -> None:
        if not self._has_room:
            return
        ballast = self._home / "ballast"
        damage.fill_disk(ballast)
        if self._try_to_start(self._ports, may_refuse=True):
            self._write()
            self._end()
            self._wait_until_gone()
        ballast.unlink()

    def _that_is_broken_off(self) -> None:
        command = self._run("start", *self._ports, "--brokers", str(self._brokers))
        time.sleep(self._rng.uniform(0, HALF_START_SECONDS))
        number, group = self._rng.choice(ENDING_SIGNALS), self._rng.random() < 0.5
        self._note(f"{number.name} to {'all' if group else 'the supervisor'} while it starts")
        command.signal(number, group=group)
        command.wait()
        if self._rng.random() < 0.5:
            self._wait_until_gone()

    def _twice_at_once(self) -> None:
        options = [*self._ports, "--brokers", str(self._brokers)]
        both = [self._run("start", *options) for _ in range(2)]
        wait_until(
            lambda: all("ready after" in one.told or one.poll() is not None for one in both),
            4 * self._ready_seconds,
            lambda: f"two starts at once: {[one.told for one in both]}",
        )
        winners = [one for one in both if one.poll() is None]
        if len(winners) > 1:
            raise Broken("two supervisors run on one directory")
        for one in both:
            if one not in winners and "Error: " not in one.told:
                raise Broken(f"one of two starts told: {one.told}")
        self._supervisor = winners[0] if winners else None

    # While it runs

    def _write(self) -> None:
        count = self._rng.randrange(1, 20)
        self._note(f"{self._ledger.write(count)} of {count} acknowledged")

    def _disturb(self) -> None:
        self._write()
        for _ in range(self._rng.randrange(3)):
            node = self._rng.choice(["zookeeper", *map(str, range(1, self._brokers + 1))])
            verb = self._rng.choice(
                ["kill", "kill-as-lost", "pause", "resume", "stop", "restart", "write", "SIGKILL",
                 "SIGSTOP", "SIGTERM", "SIGHUP", "clock", "clock"]
            )  # fmt: skip
            self._note(f"{verb} {node}")
            if verb == "write":
                self._write()
            elif verb == "clock":
                self._step_clock()
            elif verb.startswith("SIG"):
                self._signal_node(node, signal.Signals[verb])
            else:
                with contextlib.suppress(ClusterError):
                    self._note(command_node(self._directory.path, verb, node))

    def _step_clock(self) -> None:
        """That of all nodes; it stays so for a while, perhaps over an end and a start."""
        ahead = self._rng.choice([0, *CLOCK_STEPS]) * self._rng.choice([1, -1])
        self._note(f"the clock is {ahead:+d} s ahead")
        clock_file.write(self._clock, ahead)

    def _signal_node(self, node: str, number: signal.Signals) -> None:
        """From somebody who has looked its process id up."""
        assert self._supervisor is not None
        nodes = children_of(self._supervisor.pid)
        if nodes:
            index = 0 if node == "zookeeper" else min(int(node), len(nodes) - 1)
            with contextlib.suppress(ProcessLookupError):
                os.kill(nodes[index], number)

    # End

    def _end(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is None:
            return
        way = self._rng.choice(["stop", "signal", "signal", "group", "group", "everybody"])
        number = self._rng.choice(ENDING_SIGNALS)
        if way == "stop":
            if self._rng.random() < SUSPENDED_SHARE:
                self._note("everybody is suspended")
                supervisor.signal(signal.SIGSTOP, group=True)
            self._note("stop")
            self._stop(supervisor)
        elif way == "everybody":
            self._note("SIGKILL to everybody, one after the other")
            pids = descendants(self._keep)
            self._rng.shuffle(pids)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        else:
            self._note(f"{number.name} to {'the supervisor' if way == 'signal' else 'all'}")
            supervisor.signal(number, group=way == "group")
        status = supervisor.wait()
        if number is not signal.SIGKILL and way in ("signal", "group") and status != 0:
            raise Broken(f"status {status} after {number.name}: {supervisor.told[-2000:]}")
        if self._rng.random() < 0.5:
            self._wait_until_gone()

    def _stop(self, supervisor: Command) -> None:
        stop = self._run("stop")
        status = stop.wait()
        if status != 0:
            raise Broken(f"stop ended with status {status}: {stop.told}")
        supervisor.wait()

    def _end_cleanly(self) -> None:
        assert self._supervisor is not None
        self._stop(self._supervisor)
        self._wait_until_gone()

    def _wait_until_gone(self) -> None:
        wait_until(
            lambda: not descendants(self._keep),
            END_SECONDS,
            lambda: f"still running: {describe(descendants(self._keep))}",
        )

    # While it is down

    def _damage(self) -> damage.Damage:
        self._wait_until_gone()
        chosen = self._rng.choice(damage.DAMAGES)
        self._note(chosen.name.strip("_").replace("_", " "))
        chosen.do(self._directory)
        return chosen

    def _logs(self) -> str:
        """The ends of what everybody wrote."""
        outputs = sorted(self._home.parent.glob(f"{self._home.name}.*.out"))
        paths = [*outputs[-2:], *sorted(self._home.glob("data/logs/*.log"))]
        return "\n".join(
            f"--- {path}\n{path.read_text(errors='replace')[-LOG_END_CHARACTERS:]}"
            for path in paths
        )


CONDITIONS: list[Callable[[Sequence], None]] = [
    Sequence._with_other_ports,
    Sequence._with_other_brokers,
    Sequence._with_a_taken_port,
    Sequence._with_few_descriptors,
    Sequence._with_small_files,
    Sequence._on_a_full_disk,
    Sequence._that_is_broken_off,
    Sequence._twice_at_once,
]


def _mount(directory: Path) -> bool:
    """A small file system of its own, if this user may mount one."""
    options = ["-t", "tmpfs", "-o", f"size={TMPFS_BYTES}", "pybroker-torture", str(directory)]
    done = subprocess.run(["mount", *options], capture_output=True, check=False)
    return done.returncode == 0
