"""Our embedded ZooKeeper in a thread of the test, for synchronous clients such as kazoo."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import trio

from pybroker_kafka.broker.zookeeper.server import serve_zookeeper


@contextlib.contextmanager
def embedded_zookeeper(
    data_dir: Path | None = None,
    *,
    port: int = 0,
    tick_ms: int = 200,
    container_check_ms: int = 500,
    max_connections_per_host: int = 0,
    credentials: bytes | None = None,
) -> Iterator[int]:
    """Serve while the block runs; yields the port. What the server raises is raised at the end."""
    started = threading.Event()
    state: dict[str, object] = {}

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            state["token"] = trio.lowlevel.current_trio_token()
            state["scope"] = nursery.cancel_scope

            async def serve(
                *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED
            ) -> None:
                await serve_zookeeper(
                    data_dir,
                    port=port,
                    tick_time_ms=tick_ms,
                    container_check_ms=container_check_ms,
                    max_connections_per_host=max_connections_per_host,
                    credentials=credentials,
                    task_status=task_status,
                )

            state["port"] = await nursery.start(serve)
            started.set()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            state["error"] = error
        finally:
            started.set()

    thread = threading.Thread(target=run, name="embedded-zookeeper")
    thread.start()
    started.wait()
    try:
        if "error" in state:
            raise state["error"]  # type: ignore[misc]
        yield state["port"]  # type: ignore[misc]
    finally:
        if thread.is_alive():
            with contextlib.suppress(trio.RunFinishedError):
                state["token"].run_sync_soon(state["scope"].cancel)  # type: ignore[attr-defined]
        thread.join()
    if "error" in state:
        raise state["error"]  # type: ignore[misc]
