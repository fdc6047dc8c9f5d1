"""The process that makes a secured cluster's first users: forked once the brokers are ready.

In a process of its own, since it has an event loop and a thread, and the supervisor forks again.
It reports readiness as nodes do; its parent ends it in every case.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence

import trio

from .cluster_spec import HOST
from .cluster_state import NodeState
from .first_users import make_first_users
from .node_child import NodeChild
from .node_process import report_error
from .node_signals import behave_as_node
from .secured import SecurityFiles

READY = b'{"ready": 0, "internal": 0, "metrics": 0, "lacks": ""}\n'  # it listens nowhere


@contextlib.contextmanager
def set_up_process(
    security: SecurityFiles,
    brokers: Sequence[NodeChild],
    supervisor_pid: int,
    not_ours: Iterable[int],
) -> Iterator[NodeChild]:
    """The process while it is awaited. `not_ours`: descriptors that it does not keep."""
    status_read, status_write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            behave_as_node("broker", supervisor_pid)
            for descriptor in (status_read, *not_ours):
                os.close(descriptor)
            member_address = f"{HOST}:{brokers[0].internal_port}"
            addresses = [(child.state.host, child.state.port) for child in brokers]
            trio.run(make_first_users, security, member_address, addresses)
            os.write(status_write, READY)
            code = 0
        except BaseException as error:
            with contextlib.suppress(OSError):
                report_error(status_write, error)
        finally:
            os._exit(code)
    os.close(status_write)
    try:
        state = NodeState("set-up", 0, pid, HOST, 0, "", brokers[0].state.log_file)
        yield NodeChild(state, status_fd=status_read)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(status_read)
