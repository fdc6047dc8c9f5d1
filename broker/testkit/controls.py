"""How a test has something done in a process of its cluster: a Unix socket in its directory.

One request a connection: a line of JSON `{"do": NAME, ...}`, answered by `{"done": ...}` or
`{"error": TEXT}`. Only who may enter the directory may speak to it.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from ..local.cluster_control import unix_address

logger = logging.getLogger("pybroker.broker.testkit")

REQUEST_MAX_BYTES = 1 << 16

Actions = Mapping[str, Callable[..., Any]]  # what they return, or await, goes into the answer


async def serve_controls(path: Path, actions: Actions) -> None:
    """Until cancelled."""
    with trio.socket.from_stdlib_socket(_listen(path)) as listener:
        async with trio.open_nursery() as nursery:
            while True:
                connection, _ = await listener.accept()
                nursery.start_soon(_serve, trio.SocketStream(connection), actions)


def _listen(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX)
    path.unlink(missing_ok=True)
    with unix_address(path) as address:
        bound.bind(address)
    bound.listen()
    bound.setblocking(False)
    return bound


async def _serve(stream: trio.SocketStream, actions: Actions) -> None:
    async with stream:
        try:
            line = b""
            while not line.endswith(b"\n") and len(line) <= REQUEST_MAX_BYTES:
                chunk = await stream.receive_some(REQUEST_MAX_BYTES)
                if not chunk:
                    return
                line += chunk
            answer = await _do(json.loads(line), actions)
            await stream.send_all(json.dumps(answer).encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            logger.info("whoever asked for something does not wait for the answer")


async def _do(request: dict[str, Any], actions: Actions) -> dict[str, Any]:
    try:
        done = actions[request.pop("do")](**request)
        return {"done": await done if hasattr(done, "__await__") else done}
    except Exception as error:
        logger.warning("a control failed", exc_info=True)
        return {"error": str(error) or type(error).__name__}


def ask_controls(path: Path, timeout_s: float, **request: Any) -> Any:
    """From the test's process. Raises OSError, or RuntimeError with what went wrong there."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(timeout_s)
        with unix_address(path) as address:
            connection.connect(address)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer = json.loads(answers.readline(REQUEST_MAX_BYTES) or '{"error": "no answer"}')
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["done"]
