"""One server process: set up its log, run its trio loop, report readiness, stop cleanly.

A node of a local cluster is forked by the supervisor, logs to a file, reports on a pipe, and stops
on its signal or at the end of its lifeline (`node_signals`). `pybroker broker` and `pybroker
zookeeper` run the same servers in the foreground, log to the terminal, and stop on SIGTERM, Ctrl-C
or, unless started with nohup, a closed terminal. They report to systemd (`service_manager`): a
member of an ensemble is ready when it serves, which needs a leader.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from ..broker.observability.log_format import configure_logging
from ..broker.resources.descriptors import TooFewDescriptors, raise_descriptor_limit
from ..broker.resources.memory import configure_allocator, give_back_memory, give_back_start
from ..compiled import described
from .cluster_state import ClusterError, NodeState
from .node_signals import STOP_SIGNALS, end_of_lifeline
from .service_manager import report_ready, report_status
from .zookeeper_credentials import zookeeper_credentials
from .zookeeper_nodes import member_config

if TYPE_CHECKING:
    from ..broker.config import KafkaConfig
    from ..broker.server import Companion
    from ..protocol.sasl.jaas import LoginModule
    from ..zookeeper.quorum.ensemble_config import EnsembleConfig
    from .cluster_spec import ClusterSpec

logger = logging.getLogger("pybroker.local.node_process")

ADVICE = {
    errno.EADDRINUSE: "stop what uses it or choose another port",
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "make room in this user's quota",
    errno.EFBIG: "raise the limit of a file's size (ulimit -f)",
    errno.EROFS: "choose a directory that this user can write in",
    errno.EACCES: "choose a directory that this user can write in",
}

LOOPBACK = "127.0.0.1"
_JVM_OPTIONS = ("KAFKA_OPTS", "JVMFLAGS", "SERVER_JVMFLAGS")  # of ZooKeeper's scripts


class Ready(Protocol):
    def __call__(
        self, name: str, port: int, internal_port: int, metrics_port: int = 0, lacks: str = ""
    ) -> None:
        """`internal_port`: that for its like; `lacks`: the release whose features the cluster could
        have and has not."""


class StopOrders(NamedTuple):
    """The signals and the pipe that stop this process."""

    signals: tuple[signal.Signals, ...]
    lifeline_fd: int | None = None


def run_node(
    state: NodeState,
    spec: ClusterSpec,
    zookeeper_connect: str,
    status_fd: int,
    lifeline_fd: int,
) -> int:
    """Run a forked node until its stop; returns its exit status."""
    configure_logging(Path(state.log_file), verbose=spec.verbose, log_format=spec.log_format)
    orders = StopOrders((STOP_SIGNALS[state.kind],), lifeline_fd)

    def ready(
        name: str, port: int, internal_port: int, metrics_port: int = 0, lacks: str = ""
    ) -> None:
        del name
        message = {"ready": port, "internal": internal_port, "metrics": metrics_port}
        os.write(status_fd, json.dumps({**message, "lacks": lacks}).encode() + b"\n")

    try:
        raise_descriptor_limit()
        configure_allocator()
        if state.kind == "zookeeper":
            credentials = zookeeper_credentials(spec.zookeeper_credentials)
            # An ephemeral one has its data for as long as its cluster lives: it may be killed, but
            # outlives no crash of the machine.
            serve = partial(_zookeeper, fsync=not spec.ephemeral)
            directory = Path(state.directory)
            if spec.ensemble_ports:
                tls = None if spec.security is None else spec.security.quorum_keys(state.node_id)
                client_ports = {number: port for number, port, _ in spec.zookeepers()}
                config = member_config(
                    state, spec.ensemble_ports, spec.ensemble_detours, tls, client_ports
                )
                closed = partial(_member, credentials=credentials, fsync=not spec.ephemeral)
                trio.run(closed, config, ready, orders)
            else:
                trio.run(serve, directory, state.host, state.port, credentials, ready, orders)
        else:
            broker_config = spec.broker_config(state, zookeeper_connect)
            metrics = spec.metrics_address(state.node_id)
            companion = None if spec.companion is None else spec.companion(state)
            trio.run(_broker, broker_config, metrics, ready, orders, companion)
    except BaseException as error:
        logger.error("%s stops on an error", state.name, exc_info=True)
        report_error(status_fd, error)
        return 1
    return 0


def report_error(status_fd: int, error: BaseException) -> None:
    """Tell the supervisor why this node cannot start: one line, no traceback."""
    os.write(status_fd, json.dumps({"error": describe(error)}).encode() + b"\n")


def run_foreground_broker(
    properties: Path | None,
    overrides: Mapping[str, str],
    metrics: tuple[str, int] | None,
    *,
    standalone: bool,
    verbose: bool,
    log_format: str,
) -> None:
    """`pybroker broker`. Raises ClusterError for expected failures."""
    from ..broker.config import ConfigError
    from ..broker.config.loading import load_node

    configure_logging(None, verbose=verbose, log_format=log_format)
    try:
        node = load_node(properties, os.environ, overrides, standalone=standalone)
    except ConfigError as error:
        raise ClusterError(str(error)) from None
    if node.told:
        logger.info("%s", node.told)
    run = _broker_with_zookeeper if node.needs_zookeeper else _broker
    _run_in_foreground(run, node.config, metrics, _announce)


def run_foreground_zookeeper(
    data_dir: Path | None,
    host: str,
    port: int,
    credentials_file: Path | None,
    *,
    verbose: bool,
    log_format: str,
) -> None:
    """`pybroker zookeeper`. Raises ClusterError for expected failures."""
    configure_logging(None, verbose=verbose, log_format=log_format)
    credentials = zookeeper_credentials(credentials_file)
    _run_in_foreground(_zookeeper, data_dir, host, port, credentials, _announce)


def run_foreground_member(zoo_cfg: Path | None, *, verbose: bool, log_format: str) -> None:
    """`pybroker zookeeper zoo.cfg`, or the same from variables. Raises ClusterError for expected
    failures.
    """
    from ..zookeeper.quorum.environment import SERVERS

    configure_logging(None, verbose=verbose, log_format=log_format)
    config = _configured(zoo_cfg)
    if config.ignored:
        logger.warning("%s: no effect here: %s", zoo_cfg or SERVERS, ", ".join(config.ignored))
    if config.servers:
        _run_in_foreground(partial(_member, on_state=_report_state), config, _log_opened)
    else:
        _run_in_foreground(_alone, config, _announce)


def _configured(zoo_cfg: Path | None) -> EnsembleConfig:
    """Raises ClusterError."""
    from ..zookeeper.quorum.environment import SERVERS

    try:
        return load_ensemble(zoo_cfg)
    except Exception as error:
        if not is_expected(error):
            raise
        raise ClusterError(f"{zoo_cfg or SERVERS}: {describe(error)}") from None


def load_ensemble(zoo_cfg: Path | None) -> EnsembleConfig:
    """Raises ConfigurationError, ConfigError or OSError."""
    from ..broker.zookeeper.storage import MY_ID_FILE
    from ..zookeeper.quorum.ensemble_config import parse_config, parse_properties
    from ..zookeeper.quorum.environment import MY_ID, properties_of

    if zoo_cfg is not None:
        properties = parse_properties(zoo_cfg.read_text())
    else:
        properties = properties_of(os.environ)
        own = Path(properties["dataDir"])
        own.mkdir(parents=True, exist_ok=True)
        if MY_ID in os.environ and not (own / MY_ID_FILE).exists():
            (own / MY_ID_FILE).write_text(os.environ[MY_ID] + "\n")
    my_id = Path(properties.get("dataDir", ".")) / MY_ID_FILE
    options = " ".join(os.environ.get(name, "") for name in _JVM_OPTIONS)
    if "-Dreadonlymode.enabled=true" in options.split():
        properties["readonlymode.enabled"] = "true"
    sections = _jaas_sections(properties, options)
    return parse_config(properties, my_id.read_text() if my_id.is_file() else None, sections)


def _jaas_sections(
    properties: Mapping[str, str], options: str
) -> Mapping[str, Sequence[LoginModule]]:
    """Those of the file that zoo.cfg or the options of the JVM name. Raises ConfigError."""
    file = properties.get("pybroker.jaas.file")
    if file is None and "java.security.auth.login.config" not in options:
        return {}
    from ..broker.config.jaas_file import JAAS_FILE, sections_in
    from ..broker.config.loading import from_jvm_options

    file = file or from_jvm_options(options).get(JAAS_FILE)
    return {} if file is None else sections_in(Path(file))


def cut_zookeeper_log(data_dir: Path | None, zoo_cfg: Path | None = None) -> list[str]:
    """`pybroker zookeeper --cut-damaged-log`: the actions taken, line by line. Without `data_dir`,
    `zoo_cfg` or the variables name the directories."""
    from ..broker.zookeeper.storage import DataDirectoryError, cut_damaged_log

    log_dir = None
    if data_dir is None:
        config = _configured(zoo_cfg)
        data_dir, log_dir = config.data_dir, config.log_dir
    try:
        recovered = cut_damaged_log(data_dir, log_dir)
    except (DataDirectoryError, OSError) as error:
        raise ClusterError(describe(error)) from None
    tree = recovered.tree
    end = f"the state ends at transaction {tree.last_zxid:#x}, with {tree.node_count} nodes"
    return [*(recovered.notes or ["nothing is damaged"]), end]


def _announce(
    name: str, port: int, internal_port: int, metrics_port: int = 0, lacks: str = ""
) -> None:
    del internal_port, metrics_port, lacks
    logger.info("%s is ready on port %d", name, port)
    report_ready(f"on port {port}")


def _log_opened(
    name: str, port: int, internal_port: int, metrics_port: int = 0, lacks: str = ""
) -> None:
    del internal_port, metrics_port, lacks
    logger.info("%s is ready on port %d", name, port)


def _report_state(state: str, is_serving: bool) -> None:
    if is_serving:
        report_ready(state)
    else:
        report_status(state)


def _run_in_foreground(function: Callable[..., Awaitable[None]], *arguments: object) -> None:
    signals = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.append(signal.SIGHUP)
    try:
        raise_descriptor_limit()
        configure_allocator()
        trio.run(partial(function, *arguments, StopOrders(tuple(signals))))
    except BaseException as error:
        if is_expected(error):
            raise ClusterError(describe(error)) from None
        raise


def root_of(error: BaseException) -> BaseException:
    """The one error inside nested groups of one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def describe(error: BaseException) -> str:
    from ..storage.files import is_out_of_descriptors

    error = root_of(error)
    if is_out_of_descriptors(error):
        return f"{error}: allow this process to open more files (ulimit -n)"
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f": {error.filename}"
        advice = ADVICE.get(error.errno or 0)
        return f"{error.strerror}{where}; {advice}" if advice else error.strerror + where
    return str(error) or type(error).__name__


def is_expected(error: BaseException) -> bool:
    """Whether the user can mend this error, and its text says how."""
    from ..broker.config import ConfigError
    from ..broker.zk.registration import RegistrationError
    from ..broker.zk.zookeeper_client import ZooKeeperUnavailable
    from ..broker.zookeeper.client_ports import NotLoopback
    from ..broker.zookeeper.storage import DataDirectoryError
    from ..storage.log_directory import StartupError
    from ..zookeeper.quorum.ensemble_config import ConfigurationError

    root = root_of(error)
    return isinstance(
        root,
        (
            ConfigError,
            ConfigurationError,
            DataDirectoryError,
            NotLoopback,
            OSError,
            RegistrationError,
            StartupError,
            TooFewDescriptors,
            ZooKeeperUnavailable,
        ),
    )


async def _broker(
    config: KafkaConfig,
    metrics: tuple[str, int] | None,
    ready: Ready,
    orders: StopOrders,
    companion: Companion | None = None,
) -> None:
    from ..broker.server import BoundAddresses, run_broker

    stop, began = trio.Event(), trio.current_time()
    _log_start(config)

    async def serve(*, task_status: trio.TaskStatus[BoundAddresses]) -> None:
        await run_broker(
            config,
            stop=stop,
            metrics_address=metrics,
            companion=companion,
            task_status=task_status,
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_back_memory)
        await nursery.start(_stop_on_signal, stop, orders.signals)
        async with trio.open_nursery() as servers:
            if orders.lifeline_fd is not None:
                # All brokers stop at once then: no broker is left to take over leaderships.
                end = servers.cancel_scope.cancel
                nursery.start_soon(_stop_with_lifeline, orders.lifeline_fd, end)
            with trio.CancelScope() as start:
                nursery.start_soon(_cancel_after, stop, start)
                bound = await servers.start(serve)
                ports = [port for _, port in bound.listeners.values()]
                metrics_port = bound.metrics_port or 0
                name = f"broker {bound.broker_id}"
                ready(name, ports[0], ports[-1], metrics_port, bound.release_lacked)
        nursery.cancel_scope.cancel()
    logger.info("stopped after %d s", trio.current_time() - began)


async def _broker_with_zookeeper(
    config: KafkaConfig, metrics: tuple[str, int] | None, ready: Ready, orders: StopOrders
) -> None:
    """A broker and its embedded ZooKeeper, in one process: no other broker can join them."""
    from ..broker.config import KafkaConfig as Config
    from ..broker.zookeeper.server import serve_zookeeper
    from ..storage.log_directory import ZOOKEEPER_DIRECTORY

    async with trio.open_nursery() as nursery:
        data_dir = Path(config.log_dirs[0]) / ZOOKEEPER_DIRECTORY
        port = await nursery.start(partial(serve_zookeeper, data_dir, host=LOOPBACK, port=0))
        with_it = Config({**config.static, "zookeeper.connect": f"{LOOPBACK}:{port}"})
        await _broker(with_it, metrics, ready, orders)
        nursery.cancel_scope.cancel()


def _log_start(config: KafkaConfig) -> None:
    """Write the first line of a broker's log: version, compiled parts and changed keys."""
    from importlib.metadata import version

    from ..broker.config import passwords

    changed = [
        f"{name}={'[hidden]' if passwords.is_secret(name) else value}"
        for name, value in sorted(config.static.items())
    ]
    logger.info(
        "pybroker %s (%s) starts broker %s in process %d with %s",
        version("pybroker-kafka"),
        described(),
        config.broker_id if config.broker_id >= 0 else "of a new id",
        os.getpid(),
        ", ".join(changed) or "the defaults alone",
    )


async def _zookeeper(
    data_dir: Path | None,
    host: str,
    port: int,
    credentials: bytes | None,
    ready: Ready,
    orders: StopOrders,
    *,
    fsync: bool = True,
) -> None:
    from ..broker.zookeeper.server import serve_zookeeper

    serve = partial(
        serve_zookeeper, data_dir, host=host, port=port, credentials=credentials, fsync=fsync
    )
    await _run_zookeeper(serve, "ZooKeeper", ready, orders)


async def _alone(config: EnsembleConfig, ready: Ready, orders: StopOrders) -> None:
    """A server with a zoo.cfg that names no others."""
    from ..broker.zookeeper.server import serve_zookeeper

    serve = partial(
        serve_zookeeper,
        config.data_dir,
        log_dir=config.log_dir,
        host=config.client_host,
        port=config.client_port,
        secure_port=config.secure_port,
        tick_time_ms=config.tick_ms,
        session_limits_ms=config.session_limits_ms,
        max_connections_per_host=config.max_client_connections,
        access=config.access,
    )
    await _run_zookeeper(serve, "ZooKeeper", ready, orders)


async def _member(
    config: EnsembleConfig,
    ready: Ready,
    orders: StopOrders,
    *,
    credentials: bytes | None = None,
    fsync: bool = True,
    on_state: Callable[[str, bool], None] = lambda state, is_serving: None,
) -> None:
    from ..broker.zookeeper.member_server import serve_member

    name = f"ZooKeeper {config.my_id}"
    serve = partial(serve_member, config, credentials=credentials, fsync=fsync, on_state=on_state)
    await _run_zookeeper(serve, name, ready, orders)


async def _run_zookeeper(
    serve: Callable[..., Awaitable[None]], name: str, ready: Ready, orders: StopOrders
) -> None:
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_back_memory)
        await nursery.start(_stop_on_signal, stop, orders.signals)
        if orders.lifeline_fd is not None:
            nursery.start_soon(_stop_with_lifeline, orders.lifeline_fd, stop.set)
        port = await nursery.start(serve)
        ready(name, port, port)
        give_back_start()
        await stop.wait()
        nursery.cancel_scope.cancel()


async def _stop_on_signal(
    stop: trio.Event,
    stop_signals: tuple[signal.Signals, ...],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """The first signal stops cleanly; while that runs, further ones change nothing.

    Started before anything else: a signal without a receiver would kill the process.
    """
    with trio.open_signal_receiver(*stop_signals) as signals:
        task_status.started()
        async for number in signals:
            logger.info("stopping on %s", signal.Signals(number).name)
            stop.set()


async def _cancel_after(stop: trio.Event, start: trio.CancelScope) -> None:
    """Cancel the start at a stop: a starting broker has nothing to hand over or to wait for.

    Once it is ready it is in its own nursery's scope, out of the reach of `start`.
    """
    await stop.wait()
    start.cancel()


async def _stop_with_lifeline(lifeline_fd: int, stop: Callable[[], None]) -> None:
    """The pipe never carries data: it becomes readable when its other end is closed everywhere."""
    await trio.lowlevel.wait_readable(lifeline_fd)
    logger.info("the cluster stops, or its supervisor has exited")
    end_of_lifeline()
    stop()
