"""A local cluster on one machine: the embedded ZooKeeper and N brokers, each its own process.

The supervisor imports the broker once and forks the nodes, before any thread or event loop is
started; it stays a plain `select` loop, so that it may fork again. It restarts nothing silently:
a node that dies is reported and stays dead. Signals, and how nodes learn of the supervisor's own
end, are in `node_signals`. The nodes share the directory's second lock with it: the next holder of
that lock knows that none of them is alive.

It is certain of a death that others can only suspect, so it closes the ZooKeeper session of a dead
broker at once: the controller is notified then, and not when the session has expired. The command
kill-as-lost leaves the session, as a machine that vanishes would.

From its first moment it takes commands from `cluster_control`'s socket: shutdown, and for single
nodes stop, kill, kill-as-lost, pause, resume, restart, expire-session; zookeepers changes the
number of ZooKeepers while the brokers run. While nodes start, a further stop, restart or change
waits; the other commands are executed at once.

Limits, each longer than the limits inside it: a broker hands over for 20 s at most
(`controlled_shutdown`), is killed 30 s after the order to stop, as is ZooKeeper, and `pybroker
stop` waits for both. systemd kills after 90 s.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from . import cluster_state
from .cluster_control import ControlSocket, Later
from .cluster_spec import HOST, ClusterSpec, check_ports
from .cluster_state import ClusterError, ClusterState, NodeState, NodeStatus
from .node_child import STATUS_LINE_MAX_BYTES, Lifeline, NodeChild
from .node_signals import STOP_SIGNALS, behave_as_node, prepare_for_forks
from .secured import SecurityFiles
from .zookeeper_change import ZooKeepers, planned
from .zookeeper_credentials import zookeeper_credentials
from .zookeeper_nodes import await_leader, free_ports, names_of, prepare_directories, status_of

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 30.0
RECONNECT_TIMEOUT_SECONDS = 20.0
RECONNECT_POLL_SECONDS = 0.05
SESSION_RETRY_SECONDS = 0.1  # while ZooKeeper does not answer: an ensemble elects in 0.3 s


class Supervisor:
    """Starts the nodes of a `ClusterSpec`, waits, and stops them in order."""

    def __init__(
        self, spec: ClusterSpec, report: Callable[[str], None], owner: int | None = None
    ) -> None:
        """Something to read on the descriptor `owner`, or its end, is an order to stop."""
        self.spec = spec
        self._owner = owner
        self.state = ClusterState(
            os.getpid(), str(spec.data_dir), spec.ephemeral, "", secured=spec.security is not None
        )
        self._reporter = report
        self._children: list[NodeChild] = []
        self._stopping = False
        self._has_started = False  # once: nodes may be restarted since
        self._next_close = 0.0  # when sessions may be closed again, after a failure
        self._lifelines = {kind: Lifeline(*os.pipe()) for kind in ("broker", "zookeeper")}
        self._mine: list[int] = []  # of `_own_descriptors`, those that stay the same
        self._control: ControlSocket | None = None
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)

    def run(self, on_ready: Callable[[ClusterState], None]) -> int:
        """Start, call `on_ready` once a produce would succeed, wait for a signal, stop.

        Returns the exit status. Raises ClusterError if the cluster cannot start; nothing is left
        running then.
        """
        try:
            self.spec.check()
            return self._run(on_ready)
        except OSError as error:
            from .node_process import describe

            raise ClusterError(
                f"no cluster can run on {self.spec.data_dir}: {describe(error)}"
            ) from error
        finally:
            if self.spec.ephemeral:
                shutil.rmtree(self.spec.data_dir, ignore_errors=True)

    def _run(self, on_ready: Callable[[ClusterState], None]) -> int:
        data_dir = self.spec.data_dir
        self._install_signals()
        lock = cluster_state.claim(data_dir)
        try:
            with ControlSocket(data_dir) as self._control:
                self._mine = [lock, self._wake_read, self._wake_write]
                self._mine += [] if self._owner is None else [self._owner]
                nodes_lock = cluster_state.claim_nodes(data_dir, self._report)
                try:
                    check_ports(self.spec)
                    self._start_all()
                    if not self._stopping:
                        self._has_started = True
                        self.state.save()
                        on_ready(self.state)
                    return self._wait(self._control)
                finally:
                    self._stop_all()
                    os.close(nodes_lock)
        finally:
            cluster_state.forget(data_dir)
            os.close(lock)

    def _install_signals(self) -> None:
        def note(_signal: int, _frame: object) -> None:
            self._stopping = True

        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, note)
        signal.signal(signal.SIGINT, note)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, note)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)

    def _report(self, line: str) -> None:
        """Report a line, without errors: the terminal may be gone, or the disk full."""
        with contextlib.suppress(OSError):
            self._reporter(line)

    def _save_state(self) -> None:
        """Save the state; if that fails, the nodes keep running."""
        try:
            self.state.save()
        except OSError as error:
            self._report(f"pybroker status shows old data: {error}")

    def _start_all(self) -> None:
        import_broker_code()
        prepare_for_forks()
        spec = self.spec
        if spec.security is not None:
            spec.security.prepare_secrets()
        if spec.zookeeper_connect is None:
            self._start_zookeepers()
        else:
            self._prepare_certificates()
            self.state.zookeeper_connect = spec.zookeeper_connect
        if self._stopping:
            return
        # Before any broker is forked all of them are dead.
        problem = self._close_sessions_of(spec.known_broker_ids())
        if problem:
            self._tend(self._children)
            self._need_zookeeper()
            self._report(f"{problem}; the sessions of dead brokers are left to expire")
        brokers = [
            self._fork(
                "broker",
                node_id,
                spec.first_port + node_id - 1 if spec.first_port else 0,
                spec.broker_directory(node_id),
            )
            for node_id in range(1, spec.broker_count + 1)
        ]
        if spec.security is not None:
            from . import set_up  # noqa: F401, while they start
        self._await_ready(brokers)
        if release := brokers[0].release_lacked:
            self._report(
                f"the cluster keeps the features that it has; for those of Kafka {release}: "
                f"pybroker features upgrade --release {release}"
            )
        if spec.security is not None and not self._stopping:
            self._make_first_users(spec.security, brokers)

    def _start_zookeepers(self) -> None:
        spec = self.spec
        prepare_directories(spec.data_dir, spec.zookeeper_count)
        if spec.zookeeper_count > 1:
            from ..broker.zookeeper import member_server  # noqa: F401, once for all members

            spec.ensemble_ports = spec.ensemble_ports or free_ports(spec.zookeeper_count, set())
            self._prepare_certificates()
        started = [
            self._fork("zookeeper", number, port, directory)
            for number, port, directory in spec.zookeepers()
        ]
        self._prepare_certificates()  # while they start
        self._await_ready(started)
        addresses = [(HOST, child.state.port) for child in started]
        self.state.zookeeper_connect = ",".join(f"{host}:{port}" for host, port in addresses)
        if len(started) > 1:
            deadline = time.monotonic() + START_TIMEOUT_SECONDS

            def may_go_on() -> bool:
                self._tend(started)
                self._need_zookeeper()
                return not self._stopping and time.monotonic() < deadline

            if not await_leader(addresses, may_go_on) and not self._stopping:
                raise ClusterError(
                    f"the ZooKeepers have no leader after {START_TIMEOUT_SECONDS:.0f} s; their "
                    f"logs are in {spec.data_dir / 'logs'}"
                )

    def _prepare_certificates(self) -> None:
        if self.spec.security is not None:
            members = names_of(self.spec.zookeeper_count) if self.spec.ensemble_ports else []
            self.spec.security.prepare_certificates(self.spec.known_broker_ids(), members)

    def _make_first_users(self, security: SecurityFiles, brokers: list[NodeChild]) -> None:
        """Make the users and files that clients need to log in; only the first start makes
        users.
        """
        from .client_files import write_client_files
        from .set_up import set_up_process

        write_client_files(security, self.state.bootstrap)
        not_ours = [*self._own_descriptors(), *(line.write for line in self._lifelines.values())]
        with set_up_process(security, brokers, self.state.supervisor_pid, not_ours) as process:
            self._await_ready([process])

    def _close_sessions_of(self, dead_broker_ids: Collection[int]) -> str:
        """Close the ZooKeeper sessions of our dead brokers. Returns the problem, or ""."""
        from ..broker.zk.dead_sessions import (
            CannotClose,
            close_sessions,
            passwords,
            remembered_sessions,
        )
        from ..broker.zookeeper.storage import SECRET_FILE

        spec = self.spec
        connect = self._zookeepers_that_run() or self.state.zookeeper_connect
        secret = None
        if spec.zookeeper_connect is None:
            secret = spec.zookeepers()[0][2] / SECRET_FILE
        log_dirs = [
            log_dir for broker_id in dead_broker_ids for log_dir in spec.log_dirs_of(broker_id)
        ]
        try:
            credentials = zookeeper_credentials(spec.zookeeper_credentials)
            close_sessions(
                connect,
                dead_broker_ids,
                passwords(log_dirs, secret, credentials),
                remembered_sessions(log_dirs),
                credentials=credentials,
            )
        except (CannotClose, ClusterError) as error:
            return str(error)
        return ""

    def _close_open_sessions(self) -> None:
        """Close the sessions of dead brokers; retries for as long as ZooKeeper does not answer."""
        dead = [child for child in self._children if child.has_open_session]
        if not dead or time.monotonic() < self._next_close or not self.state.zookeeper_may_answer:
            return
        problem = self._close_sessions_of([child.state.node_id for child in dead])
        if problem:
            if not self._next_close:
                self._report(f"{problem}; the sessions of dead brokers stay open meanwhile")
            self._next_close = time.monotonic() + SESSION_RETRY_SECONDS
            return
        self._next_close = 0.0
        for child in dead:
            child.has_open_session = False

    def _zookeepers_that_run(self) -> str:
        """Connect string of our own that neither are paused nor have ended."""
        return ",".join(
            f"{HOST}:{child.state.port}"
            for child in self._zookeepers()
            if child.state.status is NodeStatus.RUNNING
        )

    def _fork(self, kind: str, node_id: int, port: int, directory: Path) -> NodeChild:
        logs = self.spec.data_dir / "logs"
        logs.mkdir(exist_ok=True)
        directory.mkdir(exist_ok=True)
        state = NodeState(kind, node_id, 0, HOST, port, str(directory), "")
        name = f"broker-{node_id}" if kind == "broker" else state.name
        state.log_file = str(logs / f"{name}.log")
        child = NodeChild(state)
        self._children.append(child)
        self.state.nodes.append(state)
        self._fork_child(child)
        return child

    def _fork_child(self, child: NodeChild) -> None:
        state = child.state
        status_read, status_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._run_child(state, status_write, [status_read, *self._own_descriptors()])
        os.close(status_write)
        if child.status_fd >= 0:
            os.close(child.status_fd)
        child.status_fd = status_read
        child.received.clear()
        child.last_words = ""
        child.exit_status = None
        child.has_open_session = False  # it closes its own old session before it registers
        state.pid = pid
        state.status = NodeStatus.RUNNING

    def _own_descriptors(self) -> list[int]:
        """The descriptors that no node keeps."""
        return [*self._mine, *(self._control.descriptors() if self._control else ())]

    def _run_child(self, state: NodeState, status_fd: int, not_ours: Iterable[int]) -> None:
        """Run the node in the forked process; never returns."""
        from . import node_process

        code = 1
        try:
            behave_as_node(state.kind, self.state.supervisor_pid)
            for descriptor in not_ours:
                os.close(descriptor)
            os.close(self._lifelines["broker"].write)
            if state.kind == "zookeeper":
                os.close(self._lifelines["zookeeper"].write)
            code = node_process.run_node(
                state,
                self.spec,
                self.state.zookeeper_connect,
                status_fd,
                self._lifelines[state.kind].read,
            )
        except BaseException as error:
            with contextlib.suppress(OSError):
                node_process.report_error(status_fd, error)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _await_ready(self, waiting: list[NodeChild]) -> None:
        """Wait for the ready line of each child. Raises ClusterError with a node's error."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        pending = list(waiting)
        control = self._control
        assert control is not None
        with selectors.DefaultSelector() as selector, control.watched_by(selector):
            selector.register(self._wake_read, selectors.EVENT_READ, None)
            self._watch_owner(selector)
            for child in pending:
                selector.register(child.status_fd, selectors.EVENT_READ, child)
            while pending and not self._stopping:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    late = ", ".join(child.state.name for child in pending)
                    raise ClusterError(
                        f"{late} not ready after {START_TIMEOUT_SECONDS:.0f} s; "
                        f"its log is {pending[0].state.log_file}"
                    )
                for key, _ in selector.select(_sooner(remaining, control.patience())):
                    if key.fd == self._owner:
                        self._stopping = True
                    elif key.data is None:
                        self._drain_wakeups()
                        self._tend(waiting)
                        self._need_zookeeper()
                    elif key.data is control:
                        control.serve(key.fileobj, self._execute_meanwhile)
                    elif not self._stopping and self._read_status(key.data):
                        selector.unregister(key.data.status_fd)
                        pending.remove(key.data)

    def _watch_owner(self, selector: selectors.BaseSelector) -> None:
        if self._owner is not None:
            selector.register(self._owner, selectors.EVENT_READ, None)

    def _need_zookeeper(self, advice: str = "") -> None:
        """Raises ClusterError without ZooKeeper: brokers that start would wait for it in vain."""
        own = self._zookeepers()
        ended = [child for child in own if child.exit_status is not None]
        if own and 2 * len(ended) >= len(own):
            names = ", ".join(f"{child.state.name} {child.fate}" for child in ended)
            raise ClusterError(names + advice.format(ended[0].state.name))

    def _read_status(self, child: NodeChild) -> bool:
        """Read the child's report. True once it is ready; raises ClusterError if it failed."""
        chunk = os.read(child.status_fd, 4096)
        child.received += chunk
        line, newline, _ = child.received.partition(b"\n")
        if newline:
            message = json.loads(line)
            if "error" in message:
                raise ClusterError(message["error"])
            child.state.port, child.internal_port = message["ready"], message["internal"]
            child.state.metrics_port = message["metrics"]
            child.release_lacked = message["lacks"]
            return True
        if not chunk or len(child.received) > STATUS_LINE_MAX_BYTES:
            raise ClusterError(
                f"{child.state.name} died while starting; its log is {child.state.log_file}"
            )
        return False

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_read, 512):
                pass

    def _tend(self, awaited: Collection[NodeChild] = ()) -> bool:
        """Notice deaths of nodes, and close their sessions at once. True if there were any.

        Deaths of the `awaited` are not reported here: their waiter reports them.
        """
        died = self._reap()
        for child in died:
            if child not in awaited:
                self._report(f"{child.state.name} {child.fate}")
        self._close_open_sessions()
        return bool(died)

    def _reap(self) -> list[NodeChild]:
        died = []
        for child in self._children:
            if child.exit_status is not None:
                continue
            pid, status = os.waitpid(child.state.pid, os.WNOHANG)
            if pid:
                child.end(status)
                died.append(child)
        return died

    def _kill(self, child: NodeChild) -> None:
        os.kill(child.state.pid, signal.SIGKILL)
        _, status = os.waitpid(child.state.pid, 0)
        child.end(status)

    def _wait(self, control: ControlSocket) -> int:
        """Wait until a signal orders the stop, or no broker will run again."""
        with selectors.DefaultSelector() as selector, control.watched_by(selector):
            selector.register(self._wake_read, selectors.EVENT_READ)
            self._watch_owner(selector)
            while not self._stopping:
                control.serve_waiting(self._execute)
                if self._tend():
                    self._save_state()
                unclosed = any(child.has_open_session for child in self._children)
                patience = control.patience()
                if unclosed:
                    patience = _sooner(SESSION_RETRY_SECONDS, patience)
                for key, _ in selector.select(patience):
                    if key.data is control:
                        control.serve(key.fileobj, self._execute)
                    elif key.fd == self._owner:
                        self._stopping = True
                self._drain_wakeups()
        return 0

    def _execute_meanwhile(self, command: str, node: str) -> str:
        """As `_execute`, while nodes start. Raises Later for what would wait itself."""
        if command != "shutdown":
            if not self._has_started:
                raise ClusterError("the cluster is still starting; try again")
            if command in ("restart", "stop", "zookeepers"):
                raise Later
        return self._execute(command, node)

    def _execute(self, command: str, node: str) -> str:
        """Carry out a command; returns a text for the user. Raises ClusterError."""
        if command == "shutdown":
            self._stopping = True
            return "stopping"
        if command == "zookeepers":
            return self._change_zookeepers(node)
        child = self._find(node)
        state = child.state
        if command == "restart":
            return self._restart(child)
        if child.exit_status is not None:
            raise ClusterError(
                f"{state.name} is not running; start it with: pybroker restart {node}"
            )
        if command == "stop":
            self._stop_group([child])
            state.status = NodeStatus.STOPPED
        elif command in ("kill", "kill-as-lost"):
            self._kill(child)
            child.has_open_session &= command == "kill"
            self._close_open_sessions()
        elif command == "pause":
            child.pause()
            state.status = NodeStatus.PAUSED
        elif command == "expire-session":
            problem = self._close_sessions_of([state.node_id])
            if problem:
                raise ClusterError(problem)
            return f"the ZooKeeper session of {state.name} has ended"
        elif command == "resume":
            os.kill(state.pid, signal.SIGCONT)
            state.status = NodeStatus.RUNNING
        else:
            raise ClusterError(f"there is no command {command!r}")
        self._save_state()
        return f"{state.name} is {state.status}"

    def _find(self, node: str) -> NodeChild:
        for child in self._children:
            if node == child.state.label:
                return child
        known = ", ".join(child.state.label for child in self._children)
        raise ClusterError(f"there is no node {node!r}; the nodes are: {known}")

    def _restart(self, child: NodeChild) -> str:
        """Stop the node if it runs, and fork it again on its own port and directory."""
        started = time.monotonic()
        if child.exit_status is None:
            self._stop_group([child])
        if child.state.kind == "broker":
            self._need_zookeeper("; start it first, with: pybroker restart {}")
        if child.state.kind == "broker" and child.exit_status and self.state.zookeeper_may_answer:
            # It can close its own old session only with its session file: not so on a full disk.
            self._close_sessions_of([child.state.node_id])
        self._prepare_certificates()
        self._fork_child(child)
        try:
            self._await_ready([child])
        finally:
            self._save_state()
        if self._stopping:
            raise ClusterError("the cluster is being stopped")
        return f"{child.state.name} is ready after {time.monotonic() - started:.2f} s"

    def _change_zookeepers(self, wanted: str) -> str:
        """Replace our ZooKeepers by another number of them; if that fails, by the old ones."""
        spec, old = self.spec, self._zookeepers()
        new = planned(spec, [child.state.port for child in old], wanted)
        before = ZooKeepers(
            spec.zookeeper_count, [child.state.port for child in old], spec.ensemble_ports
        )
        started = time.monotonic()
        try:
            self._replace_zookeepers(new)
        except (ClusterError, OSError) as error:
            self._replace_zookeepers(before)
            raise ClusterError(f"{error}; the cluster has {before.number} again") from error
        finally:
            self._save_state()
        self._await_reconnects()
        if self._stopping:
            raise ClusterError("the cluster is being stopped")
        are = "ZooKeepers are" if new.number > 1 else "ZooKeeper is"
        return f"{new.number} {are} ready after {time.monotonic() - started:.2f} s"

    def _await_reconnects(self) -> None:
        """Wait until the members have a client for each broker that runs: a broker that has not
        reached the first member yet knows no other one. One that comes too late is not waited for.
        """
        members = [(HOST, child.state.port) for child in self._zookeepers()]
        deadline = time.monotonic() + RECONNECT_TIMEOUT_SECONDS
        while len(members) > 1 and not self._stopping and time.monotonic() < deadline:
            self._tend()
            states = [child.state for child in self._children if child.state.kind == "broker"]
            running = sum(1 for state in states if state.status is NodeStatus.RUNNING)
            if sum(status_of(*member).connections for member in members) >= running:
                return
            time.sleep(RECONNECT_POLL_SECONDS)

    def _replace_zookeepers(self, new: ZooKeepers) -> None:
        old = self._zookeepers()
        self._stop_group(old)
        for child in old:
            os.close(child.status_fd)
            self._children.remove(child)
            self.state.nodes.remove(child.state)
        new.set_in(self.spec)
        self._start_zookeepers()
        self._children.sort(key=lambda child: child.state.kind == "broker")
        self.state.nodes.sort(key=lambda state: state.kind == "broker")

    def _zookeepers(self) -> list[NodeChild]:
        return [child for child in self._children if child.state.kind == "zookeeper"]

    def _stop_all(self) -> None:
        """Brokers first, together; ZooKeeper after them, since they close their sessions there.

        No broker hands leaderships over: none would be left to take them. An ephemeral cluster with
        its own ZooKeeper is killed.
        """
        self._reap()
        if self.spec.ephemeral and self.spec.zookeeper_connect is None:
            for child in self._children:
                if child.exit_status is None:
                    os.kill(child.state.pid, signal.SIGKILL)
            self._await_end(list(self._children))
        for child in self._children:
            if child.exit_status is None:
                os.kill(child.state.pid, signal.SIGCONT)
        for kind in ("broker", "zookeeper"):
            os.close(self._lifelines[kind].write)
            self._await_end([child for child in self._children if child.state.kind == kind])
        for child in self._children:
            if child.status_fd >= 0:
                os.close(child.status_fd)
        self._children.clear()

    def _stop_group(self, group: list[NodeChild]) -> None:
        self._tend(group)
        for child in group:
            if child.exit_status is None:
                os.kill(child.state.pid, STOP_SIGNALS[child.state.kind])
                os.kill(child.state.pid, signal.SIGCONT)
        self._await_end(group)

    def _await_end(self, group: list[NodeChild]) -> None:
        """Wait for the ends of these nodes, and kill those that do not end in time."""
        self._reap()
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_read, selectors.EVENT_READ)
            while any(child.exit_status is None for child in group):
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                selector.select(min(remaining, 0.2))
                self._drain_wakeups()
                self._tend(group)
        for child in group:
            if child.exit_status is None:
                self._report(f"{child.state.name} did not stop; killing it")
                self._kill(child)
        self._close_open_sessions()


def _sooner(seconds: float, other: float | None) -> float:
    return seconds if other is None else min(seconds, other)


def import_broker_code() -> None:
    """Pay for the imports once, before forking.

    Their objects live for ever. The collector is disabled meanwhile: it would scan all of them
    again and again, and later its marks would keep pages from being shared.
    """
    gc.disable()
    from ..broker import server  # noqa: F401
    from ..broker.zookeeper import server as zookeeper_server  # noqa: F401
    from . import node_process  # noqa: F401

    gc.freeze()
    gc.enable()
