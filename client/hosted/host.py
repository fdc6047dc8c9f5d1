"""One client that lives in the trio thread, and calls to it from another thread.

The client's block (`async with`) is one task there: it opens the client, waits for the end of the
block outside, and closes the client as its own block would have: after an exception without the
promises of a good end, after a cancellation at once.

Invariants: each call has one outcome, also when the client closes meanwhile; a call that its caller
cancels is cancelled in the trio thread, a while later; calls in turn begin when the one before has
really ended. One task runs all calls in turn: a consumer makes one for each batch, and a task for
each would cost a quarter of the call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

import trio

from ..errors import ClientError
from .trio_thread import TrioThread

C = TypeVar("C", bound=AbstractAsyncContextManager[Any])
P = ParamSpec("P")
R = TypeVar("R")


class _BlockFailed(Exception):
    """The block outside ended by an exception."""


class _Call(Generic[R]):
    """A call to the trio thread. The scope cancels it when it runs."""

    __slots__ = ("_work", "future", "scope")

    def __init__(self, work: Callable[[], Awaitable[R]]) -> None:
        self._work = work
        self.future: Future[R] = Future()
        self.scope = trio.CancelScope()

    async def run(self) -> None:
        future = self.future
        with self.scope:
            try:
                result = await self._work()
            except Exception as error:
                _fail(future, error)
            except BaseException:  # a cancellation, perhaps in a group
                _fail(future, _closed())
                raise
            else:
                if future.set_running_or_notify_cancel():
                    future.set_result(result)


class Host(Generic[C]):
    def __init__(self, client: C) -> None:
        self.client = client
        self._thread: TrioThread | None = None  # from `open` on
        self._nursery: trio.Nursery | None = None  # of calls, while the client is open
        self._running: dict[_Call[Any], None] = {}
        self._in_turn: deque[_Call[Any]] = deque()  # not begun
        self._turns = trio.lowlevel.ParkingLot()  # of the task that runs them
        self._scope = trio.CancelScope()  # of the client's block
        self._end = trio.Event()  # of the block outside
        self._error: BaseException | None = None  # by which it ended
        self._closed: Future[None] = Future()

    # From outside

    def open(self) -> Future[None]:
        """Open the client; the future raises as its `__aenter__`."""
        opened: Future[None] = Future()
        self._thread = TrioThread.join()
        self._thread.start_soon(self._live, opened)
        opened.add_done_callback(self._pass_on_cancellation)
        return opened

    def close(self, error: BaseException | None) -> Future[None]:
        """End the block, by the exception that ended the block outside; the future raises as
        `__aexit__`."""
        if not self._closed.done():
            self.thread.run_soon(self._end_block, error)
        return self._closed

    @property
    def thread(self) -> TrioThread:
        """The thread. Raises ClientError outside of the block."""
        if self._thread is None:
            raise ClientError("use a client inside its `with` or `async with`")
        if self._closed.done():
            raise _closed()
        return self._thread

    def call(
        self, function: Callable[P, Awaitable[R]], *arguments: P.args, **keywords: P.kwargs
    ) -> Future[R]:
        """Await a coroutine function in the trio thread; a cancelled future cancels it."""
        return self._begin(partial(function, *arguments, **keywords), self._start)

    def call_in_turn(
        self, function: Callable[P, Awaitable[R]], *arguments: P.args, **keywords: P.kwargs
    ) -> Future[R]:
        """`call`, behind all calls of this kind, those that their callers have cancelled included:
        a cancelled call may still have its result."""
        return self._begin(partial(function, *arguments, **keywords), self._queue)

    def _begin(
        self, work: Callable[[], Awaitable[R]], start: Callable[[_Call[R]], None]
    ) -> Future[R]:
        call = _Call(work)
        future, thread = call.future, self.thread

        def pass_on(done: Future[R]) -> None:
            if done.cancelled():
                thread.run_soon(call.scope.cancel)

        future.add_done_callback(pass_on)
        if not thread.run_soon(start, call):
            _fail(future, _closed())
        return future

    def call_at_once(
        self, function: Callable[P, R], *arguments: P.args, **keywords: P.kwargs
    ) -> Future[R]:
        """Call a function in the trio thread."""
        future: Future[R] = Future()

        def run() -> None:
            if self._nursery is None:
                _fail(future, _closed())
                return
            try:
                result = function(*arguments, **keywords)
            except BaseException as error:
                _fail(future, error)
            else:
                if future.set_running_or_notify_cancel():
                    future.set_result(result)

        if not self.thread.run_soon(run):
            _fail(future, _closed())
        return future

    # In the trio thread

    def _start(self, call: _Call[Any]) -> None:
        if self._nursery is None:
            _fail(call.future, _closed())
        else:
            self._running[call] = None
            self._nursery.start_soon(self._run, call)

    def _queue(self, call: _Call[Any]) -> None:
        if self._nursery is None:
            _fail(call.future, _closed())
        else:
            self._in_turn.append(call)
            self._turns.unpark_all()

    async def _run(self, call: _Call[Any]) -> None:
        try:
            await call.run()
        finally:
            del self._running[call]

    async def _take_turns(self) -> None:
        while True:
            while self._in_turn:
                call = self._in_turn.popleft()
                if not call.future.cancelled():
                    self._running[call] = None
                    await self._run(call)
            await self._turns.park()

    def _end_calls(self) -> None:
        for call in self._running:
            call.scope.cancel()
        while self._in_turn:
            _fail(self._in_turn.popleft().future, _closed())

    async def _live(self, opened: Future[None]) -> None:
        failure: BaseException | None = None
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    try:
                        async with self.client:
                            self._nursery = nursery
                            nursery.start_soon(self._take_turns)
                            if opened.set_running_or_notify_cancel():
                                opened.set_result(None)
                                await self._end.wait()
                            self._end_calls()
                            # Callbacks of the client may call it while it closes.
                            await self._leave_block()
                    finally:
                        self._nursery = None
                        self._end_calls()  # those that came while it closed
                        nursery.cancel_scope.cancel()
        except BaseException as error:
            alone = _alone(error)
            failure = None if isinstance(alone, _BlockFailed) else alone
        assert self._thread is not None
        self._thread.leave()  # before anybody may look
        if failure is None:
            _succeed(self._closed)
        elif opened.done():
            _fail(self._closed, failure)
        else:
            _succeed(self._closed)
            _fail(opened, failure)

    async def _leave_block(self) -> None:
        if isinstance(self._error, Exception):
            raise _BlockFailed
        if self._error is not None:
            self._scope.cancel()
            await trio.lowlevel.checkpoint()

    def _end_block(self, error: BaseException | None) -> None:
        self._error = error
        self._end.set()

    def _pass_on_cancellation(self, opened: Future[None]) -> None:
        if opened.cancelled():
            assert self._thread is not None
            self._thread.run_soon(self._scope.cancel)


def _closed() -> ClientError:
    return ClientError("the client has ended")


def _alone(error: BaseException) -> BaseException:
    """The only exception of a nursery's group."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _fail(future: Future[R], error: BaseException) -> None:
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_exception(error)


def _succeed(future: Future[None]) -> None:
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_result(None)
