"""The meaning of signals and pipes for the processes of a local cluster.

| process    | stops in order on   | at once on                 | ignores                   |
|------------|---------------------|----------------------------|---------------------------|
| supervisor | TERM, INT, HUP      |                            | HUP, if told so (`nohup`) |
| broker     | TERM: hands over    | the end of its lifeline    | INT, HUP                  |
| ZooKeeper  | USR1                | the end of its lifeline    | TERM, INT, HUP            |

A signal to the whole group (a closed terminal, `timeout`, systemd) is then a clean stop: the
supervisor, which gets it as well, ends the brokers' lifeline, and ZooKeeper outlives them.

A lifeline is a pipe that carries nothing; its end says that all its holders are gone. The brokers'
is held by the supervisor alone, so it ends with the supervisor in every case. ZooKeeper's is held
by the supervisor and by every broker, so that ZooKeeper is there while they close their sessions.

Where the system can (Linux), a paused node is woken by the death of its supervisor: it could not
see the end of its lifeline otherwise. An orphan that does not end in time is ended by its alarm.
"""

from __future__ import annotations

import os
import signal
import sys

STOP_SIGNALS = {"broker": signal.SIGTERM, "zookeeper": signal.SIGUSR1}
ORPHAN_STOP_SECONDS = 30
PR_SET_PDEATHSIG = 1


def prepare_for_forks() -> None:
    """Load modules once that every node needs after its fork."""
    if sys.platform == "linux":
        import ctypes  # noqa: F401


def behave_as_node(kind: str, supervisor_pid: int) -> None:
    """Set up the signals of a forked node, before anything else."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if kind == "zookeeper":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _signal_with_parent(signal.SIGCONT)
    if os.getppid() != supervisor_pid:
        raise ProcessLookupError("the supervisor had exited before this node started")


def die_with_parent() -> None:
    """SIGKILL at the parent's death, for a process without a clean-up (Linux)."""
    _signal_with_parent(signal.SIGKILL)


def stop_with_parent() -> None:
    """SIGTERM at the parent's death, for a supervisor without a purpose after it (Linux)."""
    _signal_with_parent(signal.SIGTERM)


def _signal_with_parent(number: signal.Signals) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def end_of_lifeline() -> None:
    """Limit the remaining life of this process."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(ORPHAN_STOP_SECONDS)
