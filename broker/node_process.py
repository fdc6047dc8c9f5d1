"""One forked node of a local cluster: set up its log file, run its trio loop, report, stop.

A node stops cleanly on SIGTERM and when the supervisor's end of the lifeline pipe closes.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from broker.cluster_state import NodeState
from broker.logs import configure_logging

if TYPE_CHECKING:
    from broker.supervisor import ClusterSpec

logger = logging.getLogger(__name__)


def report_error(status_fd: int, error: BaseException) -> None:
    """Tell the supervisor why this node cannot start: one line, no traceback."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    text = str(error) or type(error).__name__
    os.write(status_fd, json.dumps({"error": text}).encode() + b"\n")


def run_node(
    state: NodeState,
    spec: ClusterSpec,
    zookeeper_connect: str,
    status_fd: int,
    lifeline_fd: int,
) -> int:
    """Run the node until it is told to stop; returns its exit status."""
    configure_logging(Path(state.log_file), verbose=spec.verbose)
    try:
        trio.run(_main, state, spec, zookeeper_connect, status_fd, lifeline_fd)
    except BaseException as error:
        logger.error("%s stops on an error", state.name, exc_info=True)
        report_error(status_fd, error)
        return 1
    return 0


async def _main(
    state: NodeState,
    spec: ClusterSpec,
    zookeeper_connect: str,
    status_fd: int,
    lifeline_fd: int,
) -> None:
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_on_sigterm, stop)
        nursery.start_soon(_stop_with_supervisor, lifeline_fd, stop)
        if state.kind == "zookeeper":
            await _run_zookeeper(state, spec, status_fd, stop)
        else:
            await _run_broker(state, spec, zookeeper_connect, status_fd, stop)
        nursery.cancel_scope.cancel()


async def _run_zookeeper(
    state: NodeState, spec: ClusterSpec, status_fd: int, stop: trio.Event
) -> None:
    from broker.zookeeper_server import serve_zookeeper

    data_dir = None if spec.ephemeral else Path(state.directory)
    async with trio.open_nursery() as nursery:
        port = await nursery.start(_serve_zookeeper, serve_zookeeper, data_dir, state)
        _report_ready(status_fd, port)
        await stop.wait()
        nursery.cancel_scope.cancel()


async def _serve_zookeeper(serve, data_dir, state, *, task_status):  # type: ignore[no-untyped-def]
    await serve(data_dir, host=state.host, port=state.port, task_status=task_status)


async def _run_broker(
    state: NodeState,
    spec: ClusterSpec,
    zookeeper_connect: str,
    status_fd: int,
    stop: trio.Event,
) -> None:
    raise AssertionError("wired when broker.server lands")


def _report_ready(status_fd: int, port: int) -> None:
    os.write(status_fd, json.dumps({"ready": port}).encode() + b"\n")


async def _stop_on_sigterm(stop: trio.Event) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async for _ in signals:
            stop.set()


async def _stop_with_supervisor(lifeline_fd: int, stop: trio.Event) -> None:
    """The pipe never carries data: it becomes readable when its other end is gone."""
    await trio.lowlevel.wait_readable(lifeline_fd)
    logger.warning("the supervisor is gone; stopping")
    stop.set()
