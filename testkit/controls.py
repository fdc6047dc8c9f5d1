"""The channel from a test to a process of its cluster: a Unix socket in the cluster's directory.

One request a connection: a line of JSON `{"do": NAME, ...}`, answered by `{"done": ...}` or
`{"error": TEXT}`. Only the owner may connect. A bad or a slow caller ends nothing but its own
connection, of which MAX_CALLERS are open at most.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from ..local.cluster_control import POLL_SECONDS, listen_privately, parsed_request, unix_address

logger = logging.getLogger("pybroker.testkit")

REQUEST_MAX_BYTES = 1 << 22
CHUNK_BYTES = 1 << 16
ANSWER_MAX_BYTES = 1 << 28
REQUEST_TIMEOUT_SECONDS = 5.0
MAX_CALLERS = 64  # more wait until one has been answered

Actions = Mapping[str, Callable[..., Any]]  # their results, awaited or not, go into the answer


async def serve_controls(
    path: Path,
    actions: Actions,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled."""
    room = trio.Semaphore(MAX_CALLERS)
    with trio.socket.from_stdlib_socket(listen_privately(path)) as listener:
        task_status.started()
        async with trio.open_nursery() as nursery:
            while True:
                await room.acquire()
                connection = await _accept(listener)
                nursery.start_soon(_serve, trio.SocketStream(connection), actions, room)


async def _accept(listener: trio.socket.SocketType) -> trio.socket.SocketType:
    while True:
        try:
            return (await listener.accept())[0]
        except OSError as error:
            logger.warning("no control can be accepted now: %s", error)
            await trio.sleep(POLL_SECONDS)


async def _serve(stream: trio.SocketStream, actions: Actions, room: trio.Semaphore) -> None:
    try:
        async with stream:
            line = await _line(stream)
            if line is not None:
                answer = await _do(line, actions)
                await stream.send_all(json.dumps(answer).encode() + b"\n")
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        logger.info("whoever asked for something does not wait for the answer")
    finally:
        room.release()


async def _line(stream: trio.SocketStream) -> bytes | None:
    line = b""
    with trio.move_on_after(REQUEST_TIMEOUT_SECONDS):
        while len(line) <= REQUEST_MAX_BYTES:
            chunk = await stream.receive_some(CHUNK_BYTES)
            if not chunk:
                return None
            line += chunk
            if line.endswith(b"\n"):
                return line
    return None


async def _do(line: bytes, actions: Actions) -> dict[str, Any]:
    try:
        request = parsed_request(line)
        action = actions[str(request.pop("do", ""))]
        done = action(**request)
        answer = {"done": await done if hasattr(done, "__await__") else done}
        json.dumps(answer)
    except Exception as error:
        logger.warning("a control failed", exc_info=True)
        return {"error": str(error) or type(error).__name__}
    return answer


def ask_controls(path: Path, timeout_s: float, **request: Any) -> Any:
    """Ask from the test's process. Raises OSError, or RuntimeError with the error there."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        with unix_address(path) as address:
            connection.connect(address)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer = json.loads(answers.readline(ANSWER_MAX_BYTES) or '{"error": "no answer"}')
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["done"]
