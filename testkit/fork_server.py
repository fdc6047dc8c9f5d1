"""A process that has imported the broker once, and forks supervisors of clusters, and commands.

Started once a test process, it is without threads and event loops, so that it may fork. It takes
one request at a time, `{"cluster": ClusterOptions}`, `{"command": CommandOptions}` or `{"network":
DIRECTORY}`, with a descriptor beside it: its end of the channel. It answers with a byte when it has
forked; all else is sent on the channel. A supervisor or the proxy of a network sends `{"ready":
true}` or `{"error": TEXT}`; a command sends `{"pid": PID}` and, once it has ended, the fork server
`{"exit": STATUS}`.

All that was forked ends when the owner ends, in every case, even if another process still has a
copy of the channel: the fork server watches the owner's process, and its children are notified of
the fork server's end (`PR_SET_PDEATHSIG` where it exists). Commands are killed then, and
supervisors stop their clusters.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trio

from ..broker.resources.descriptors import raise_descriptor_limit
from ..local import cluster_state
from ..local.cluster_control import parsed_request
from ..local.cluster_spec import ClusterSpec
from ..local.cluster_start import import_broker_code
from ..local.node_process import describe
from ..local.node_signals import die_with_parent, prepare_for_forks, stop_with_parent
from ..local.secured import SecurityFiles
from ..local.supervisor import Supervisor
from .network_proxy import NetworkPlan, serve_network
from .node_controls import companion
from .options import ClusterOptions, CommandOptions

REQUEST_MAX_BYTES = 1 << 20
END_PATIENCE_SECONDS = 40  # longer than a supervisor takes for its nodes
FORKED = b"+"
CLONE_NEWNET = 0x40000000
PACKAGE = __name__.partition(".")[0]
# Of the commands that serve, by name: the layers below the command line do not import it.
COMMAND_MODULES = ("cli.main", "cli.server", "cli.cluster", "cli.nodes")


class ForkServer:
    """The loop: requests, children that have ended, the owner's end."""

    def __init__(self, requests: socket.socket, owner_pid: int) -> None:
        self._requests = requests
        self._owner_pid = owner_pid
        self._directories: dict[int, Path | None] = {}  # of supervisors that run, if ephemeral
        self._commands: dict[int, socket.socket] = {}  # the channels of those that run
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._mine = [requests.fileno(), self._wake_read, self._wake_write]

    def run(self) -> None:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
        with selectors.DefaultSelector() as selector:
            self._mine.append(selector.fileno() if hasattr(selector, "fileno") else -1)
            selector.register(self._requests, selectors.EVENT_READ)
            selector.register(self._wake_read, selectors.EVENT_READ)
            if hasattr(os, "pidfd_open"):
                with contextlib.suppress(OSError):
                    owner = os.pidfd_open(self._owner_pid)
                    self._mine.append(owner)
                    selector.register(owner, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if self._wake_read in ready:
                    os.read(self._wake_read, 512)
                    self._reap(os.WNOHANG)
                if self._requests.fileno() in ready:
                    if not self._serve_one():
                        break
                elif ready - {self._wake_read}:
                    break  # the owner's process is gone
        self._end()

    def _end(self) -> None:
        """Kill all commands and stop all supervisors that still run; remove their directories."""
        for pid in self._commands:
            os.kill(pid, signal.SIGKILL)
        for pid in self._directories:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(END_PATIENCE_SECONDS)
        while self._directories or self._commands:
            self._reap(0)

    def _reap(self, options: int) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, options)
            except ChildProcessError:
                self._directories.clear()
                return
            if not pid:
                return
            if (channel := self._commands.pop(pid, None)) is not None:
                with channel, contextlib.suppress(OSError):
                    _tell(channel, {"exit": os.waitstatus_to_exitcode(status)})
            directory = self._directories.pop(pid, None)
            if directory is not None:
                shutil.rmtree(directory, ignore_errors=True)

    def _serve_one(self) -> bool:
        """Fork for the next request; false at their end."""
        received, descriptors, _, _ = socket.recv_fds(self._requests, REQUEST_MAX_BYTES, 1)
        while not received.endswith(b"\n"):
            chunk = self._requests.recv(REQUEST_MAX_BYTES) if received else b""
            if not chunk:
                for descriptor in descriptors:
                    os.close(descriptor)
                return False
            received += chunk
        try:
            self._fork(parsed_request(received), descriptors)
        except (OSError, TypeError, ValueError) as error:
            # A request that another version of the package has made, or no process for it.
            for descriptor in descriptors:
                with socket.socket(fileno=descriptor) as channel, contextlib.suppress(OSError):
                    _tell(channel, {"error": f"nothing can be forked: {error}"})
        self._requests.sendall(FORKED)
        return True

    def _fork(self, request: Mapping[str, Any], descriptors: list[int]) -> None:
        """The descriptors are closed, or handed on, unless this raises."""
        if len(descriptors) != 1:
            raise ValueError("there is no channel beside the request")
        if "command" in request:
            self._fork_command(CommandOptions(**request["command"]), descriptors[0])
            return
        if "network" in request:
            directory = Path(request["network"])
            self._fork_process(partial(carry_network, directory), descriptors[0])
            return
        options = ClusterOptions(**request.get("cluster", {}))
        pid = self._fork_process(partial(supervise, options), descriptors[0])
        self._directories[pid] = Path(options.data_dir) if options.ephemeral else None

    def _fork_command(self, options: CommandOptions, descriptor: int) -> None:
        for module in COMMAND_MODULES:
            importlib.import_module(f"{PACKAGE}.{module}")
        channel = socket.socket(fileno=descriptor)
        pid = os.fork()
        if pid == 0:
            self._become_command(options, channel)
        self._commands[pid] = channel

    def _forget_owner(self) -> None:
        """In a forked process: its signals and descriptors are not those of the fork server."""
        signal.set_wakeup_fd(-1)
        for descriptor in self._mine:
            if descriptor >= 0:
                os.close(descriptor)
        for channel in self._commands.values():
            channel.close()

    def _become_command(self, options: CommandOptions, channel: socket.socket) -> None:
        """Run the command in the forked process; never returns."""
        code = 1
        try:
            self._forget_owner()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if options.new_session:
                os.setsid()
            die_with_parent()
            if options.network_namespace is not None:
                enter_network(options.network_namespace)
            with channel:
                _tell(channel, {"pid": os.getpid()})
            run_command(options)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:
            if channel.fileno() >= 0:  # it has not begun
                _tell(channel, {"error": describe(error)})
            else:
                sys.excepthook(*sys.exc_info())
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _fork_process(self, run: Callable[[socket.socket], int], descriptor: int) -> int:
        """Fork a process that runs this with the channel; its id."""
        pid = os.fork()
        if pid == 0:
            code = 1
            channel = socket.socket(fileno=descriptor)
            try:
                self._forget_owner()
                stop_with_parent()
                code = run(channel)
            except BaseException as error:
                with contextlib.suppress(OSError):
                    _tell(channel, {"error": describe(error)})
            finally:
                os._exit(code)
        os.close(descriptor)
        return pid


def enter_network(name: str) -> None:
    """Move this process into a network namespace; Python before 3.12 has no os.setns."""
    import ctypes

    descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns", name)
    os.close(descriptor)


def run_command(options: CommandOptions) -> None:
    """Run `python -m pybroker_kafka WORDS` in this process."""
    os.environ.clear()
    os.environ.update(options.environment)
    os.chdir(options.directory)
    output = os.open(options.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for target in (1, 2):
        os.dup2(output, target)
    os.close(output)
    sys.argv = ["pybroker", *options.words]
    runpy.run_module(PACKAGE, run_name="__main__", alter_sys=True)


def supervise(options: ClusterOptions, channel: socket.socket) -> int:
    """Run one cluster until its channel ends. Raises ClusterError if it cannot start."""
    spec = spec_of(options)
    record = cluster_state.SupervisorLog(spec.data_dir)
    with contextlib.ExitStack() as stack:
        if options.network:
            stack.enter_context(network_of(spec, channel.fileno()))
        supervisor = Supervisor(spec, record.add, owner=channel.fileno())
        return supervisor.run(lambda _state: _tell(channel, {"ready": True}))


def carry_network(directory: Path, channel: socket.socket) -> int:
    """Run the proxy of a `Network` until its channel ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trio.run(serve_network, directory, channel)
    return 0


def network_of(spec: ClusterSpec, channel: int) -> contextlib.AbstractContextManager[None]:
    """The proxy's process, and the brokers behind it. Raises ClusterError: no free ports."""
    os.close(cluster_state.claim(spec.data_dir))
    plan = NetworkPlan(
        spec.broker_count,
        spec.zookeeper_connect,
        spec.zookeeper_count,
        is_secure=spec.security is not None,
    )
    plan.reserve()
    spec.zookeeper_port = plan.zookeeper_port
    spec.ensemble_ports, spec.ensemble_detours = plan.ensemble_ports, plan.ensemble_detours
    spec.own_keys = plan.broker_keys
    return plan.proxy_process(spec.data_dir, channel)


def spec_of(options: ClusterOptions) -> ClusterSpec:
    """The same that `pybroker start` makes of its options."""
    data_dir = Path(options.data_dir)
    security = SecurityFiles(data_dir) if options.secure else None
    credentials = options.zookeeper_credentials and Path(options.zookeeper_credentials)
    if security is not None and options.zookeeper is None and credentials is None:
        credentials = security.zookeeper
    return ClusterSpec(
        data_dir=data_dir,
        broker_count=options.brokers,
        first_port=options.port,
        zookeeper_port=options.zookeeper_port,
        zookeeper_count=options.zookeepers,
        zookeeper_connect=options.zookeeper,
        zookeeper_credentials=credentials or None,
        security=security,
        ephemeral=options.ephemeral,
        release=options.release,
        registry=options.registry,
        overrides=options.config,
        first_metrics_port=options.metrics_port,
        verbose=options.verbose,
        companion=lambda node: companion(data_dir, node.node_id),
    )


def _tell(channel: socket.socket, message: dict[str, object]) -> None:
    channel.sendall(json.dumps(message).encode() + b"\n")


def main() -> None:
    """Serve in a process whose argument is its owner's id; requests come on its standard input, a
    Unix socket.
    """
    requests = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    raise_descriptor_limit()
    import_broker_code()
    prepare_for_forks()
    ForkServer(requests, int(sys.argv[1])).run()
