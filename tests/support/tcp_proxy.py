"""A TCP proxy whose connections a test can cut, and that can refuse new ones for a while."""

import trio


class TcpProxy:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._connections: set[trio.CancelScope] = set()
        self.refusing = False
        self.port = 0

    def cut(self) -> None:
        for scope in self._connections:
            scope.cancel()

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            self.port = listener.socket.getsockname()[1]
            task_status.started(self.port)
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])

    async def _serve(self, near: trio.SocketStream) -> None:
        if self.refusing:
            return
        far = await trio.open_tcp_stream("127.0.0.1", self._target_port)
        async with near, far, trio.open_nursery() as nursery:
            self._connections.add(nursery.cancel_scope)
            nursery.start_soon(self._pump, near, far, nursery.cancel_scope)
            await self._pump(far, near, nursery.cancel_scope)
        self._connections.discard(nursery.cancel_scope)

    async def _pump(
        self, source: trio.SocketStream, sink: trio.SocketStream, scope: trio.CancelScope
    ) -> None:
        try:
            async for data in source:
                await sink.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        scope.cancel()
