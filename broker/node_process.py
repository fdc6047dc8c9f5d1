"""One server process: set up its log, run its trio loop, say when it is ready, stop cleanly.

A node of a local cluster is forked by the supervisor, logs to a file, reports on a pipe, and stops
on SIGTERM or when the supervisor's end of the lifeline pipe closes. `pybroker broker` and
`pybroker zookeeper` run the same servers in the foreground, log to the terminal, and stop on
SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import errno
import functools
import json
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from broker.cluster_state import ClusterError, NodeState
from broker.logs import configure_logging

if TYPE_CHECKING:
    from broker.cluster_spec import ClusterSpec
    from broker.config import KafkaConfig

logger = logging.getLogger(__name__)

Ready = Callable[[str, int], None]


def run_node(
    state: NodeState,
    spec: ClusterSpec,
    zookeeper_connect: str,
    status_fd: int,
    lifeline_fd: int,
) -> int:
    """Run a forked node until it is told to stop; returns its exit status."""
    configure_logging(Path(state.log_file), verbose=spec.verbose)

    def ready(_address: str, port: int) -> None:
        os.write(status_fd, json.dumps({"ready": port}).encode() + b"\n")

    try:
        if state.kind == "zookeeper":
            data_dir = None if spec.ephemeral else Path(state.directory)
            trio.run(_zookeeper, data_dir, state.host, state.port, ready, lifeline_fd)
        else:
            config = spec.broker_config(state, zookeeper_connect)
            metrics = spec.first_metrics_port
            metrics_port = None if metrics is None else metrics + state.node_id - 1
            trio.run(_broker, config, metrics_port, ready, lifeline_fd)
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
    metrics_port: int | None,
    *,
    verbose: bool,
) -> None:
    """`pybroker broker`. Raises ClusterError for what the user can mend."""
    from broker.config import ConfigError
    from broker.config.loading import load_config

    configure_logging(None, verbose=verbose)
    try:
        config = load_config(properties, environment=os.environ, overrides=overrides)
    except ConfigError as error:
        raise ClusterError(str(error)) from None
    _run_in_foreground(_broker, config, metrics_port, _announce)


def run_foreground_zookeeper(data_dir: Path | None, host: str, port: int, *, verbose: bool) -> None:
    """`pybroker zookeeper`. Raises ClusterError for what the user can mend."""
    configure_logging(None, verbose=verbose)
    _run_in_foreground(_zookeeper, data_dir, host, port, _announce)


def _announce(name: str, port: int) -> None:
    logger.info("%s is ready on port %d", name, port)


def _run_in_foreground(function: Callable[..., Awaitable[None]], *arguments: object) -> None:
    try:
        trio.run(functools.partial(function, *arguments, None))
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
    error = root_of(error)
    if isinstance(error, OSError) and error.strerror and error.filename is None:
        if error.errno == errno.EADDRINUSE:
            return f"{error.strerror}; stop what uses it or choose another port"
        return error.strerror
    return str(error) or type(error).__name__


def is_expected(error: BaseException) -> bool:
    """Whether this error is the user's to mend, and its text says how."""
    from broker.config import ConfigError
    from broker.registration import RegistrationError
    from broker.zookeeper_client import ZooKeeperUnavailable
    from broker.zookeeper_storage import DataDirectoryError
    from storage.log_directory import StartupError

    root = root_of(error)
    return isinstance(
        root,
        (
            ConfigError,
            DataDirectoryError,
            OSError,
            RegistrationError,
            StartupError,
            ZooKeeperUnavailable,
        ),
    )


async def _broker(
    config: KafkaConfig, metrics_port: int | None, ready: Ready, lifeline_fd: int | None
) -> None:
    from broker.server import BoundAddresses, run_broker

    stop = trio.Event()

    async def serve(*, task_status: trio.TaskStatus[BoundAddresses]) -> None:
        await run_broker(config, stop=stop, metrics_port=metrics_port, task_status=task_status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, stop)
        async with trio.open_nursery() as servers:
            if lifeline_fd is not None:
                # Everybody stops at once then: there is nobody to hand leaderships over to.
                nursery.start_soon(_stop_with_supervisor, lifeline_fd, servers.cancel_scope.cancel)
            with trio.CancelScope() as start:
                nursery.start_soon(_cancel_after, stop, start)
                bound = await servers.start(serve)
                _, port = next(iter(bound.listeners.values()))
                ready(f"broker {bound.broker_id}", port)
        nursery.cancel_scope.cancel()


async def _zookeeper(
    data_dir: Path | None, host: str, port: int, ready: Ready, lifeline_fd: int | None
) -> None:
    from broker.zookeeper_server import serve_zookeeper

    stop = trio.Event()

    async def serve(*, task_status: trio.TaskStatus[int]) -> None:
        await serve_zookeeper(data_dir, host=host, port=port, task_status=task_status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_signal, stop)
        if lifeline_fd is not None:
            nursery.start_soon(_stop_with_supervisor, lifeline_fd, stop.set)
        ready("ZooKeeper", await nursery.start(serve))
        await stop.wait()
        nursery.cancel_scope.cancel()


async def _stop_on_signal(stop: trio.Event) -> None:
    """The first signal stops cleanly; while that runs, further ones change nothing."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            stop.set()


async def _cancel_after(stop: trio.Event, start: trio.CancelScope) -> None:
    """Told to stop while it starts, a broker has nothing to hand over, and waits for nobody.

    Once it is ready it is in its own nursery's scope, out of the reach of `start`.
    """
    await stop.wait()
    start.cancel()


async def _stop_with_supervisor(lifeline_fd: int, stop: Callable[[], None]) -> None:
    """The pipe never carries data: it becomes readable when its other end is gone."""
    await trio.lowlevel.wait_readable(lifeline_fd)
    logger.warning("the supervisor is gone; stopping")
    stop()
