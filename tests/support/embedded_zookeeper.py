"""Our embedded ZooKeeper in a thread of the test, for synchronous clients such as kazoo."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import trio

from pybroker_kafka.broker.zookeeper.server import serve_zookeeper
from pybroker_kafka.zookeeper.access import OPEN_ACCESS, Access
from pybroker_kafka.zookeeper.quorum.ensemble_config import SecurePort

Started = tuple[int, trio.lowlevel.TrioToken, trio.CancelScope]


@contextlib.contextmanager
def embedded_zookeeper(
    data_dir: Path | None = None,
    *,
    log_dir: Path | None = None,
    port: int | None = 0,
    secure_port: SecurePort | None = None,
    access: Access = OPEN_ACCESS,
    tick_ms: int = 200,
    container_check_ms: int = 500,
    max_connections_per_host: int = 0,
    credentials: bytes | None = None,
) -> Iterator[int]:
    """Serve while the block runs; yields the port. What the server raises is raised at the end."""
    started: SimpleQueue[Started | None] = SimpleQueue()
    serve = partial(
        serve_zookeeper,
        log_dir=log_dir,
        port=port,
        secure_port=secure_port,
        access=access,
        tick_time_ms=tick_ms,
        container_check_ms=container_check_ms,
        max_connections_per_host=max_connections_per_host,
        credentials=credentials,
    )

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            bound = await nursery.start(serve, data_dir)
            started.put((bound, trio.lowlevel.current_trio_token(), nursery.cancel_scope))

    with ThreadPoolExecutor(1, "embedded-zookeeper") as thread:
        server = thread.submit(trio.run, main)
        server.add_done_callback(lambda _: started.put(None))
        if (told := started.get()) is not None:
            bound, token, scope = told
            try:
                yield bound
            finally:
                with contextlib.suppress(trio.RunFinishedError):
                    token.run_sync_soon(scope.cancel)
        server.result()
