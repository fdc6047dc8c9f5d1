"""What logins wait for: delays in order, steps in threads, strangers that are closed."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.logins import login_tasks
from pybroker_kafka.broker.logins.login_tasks import LoginTasks
from tests.support.patience import eventually


class Stranger:
    """As much of a connection as is looked at."""

    def __init__(self) -> None:
        self.closed = False
        self.error: Exception | None = None

    def close(self, _reason: str) -> None:
        self.closed = True

    def fail(self, error: Exception) -> None:
        self.error = error


async def test_calls_come_when_they_are_due_and_in_order() -> None:
    tasks: Any = LoginTasks()
    someone = Stranger()
    called: list[int] = []
    over = trio.Event()
    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        tasks.later(someone, 0.05, over.set)
        tasks.later(someone, 0.02, lambda: called.append(1))
        tasks.later(someone, 0.02, lambda: called.append(2))
        with trio.fail_after(120):
            await over.wait()
        nursery.cancel_scope.cancel()
    assert called == [1, 2]


async def test_a_step_runs_in_a_thread_and_its_end_on_the_loop() -> None:
    tasks: Any = LoginTasks()
    threads: list[threading.Thread] = []
    over = trio.Event()

    def note() -> None:
        threads.append(threading.current_thread())

    def end() -> None:
        note()
        over.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        tasks.in_thread(Stranger(), note, end)
        with trio.fail_after(120):
            await over.wait()
        nursery.cancel_scope.cancel()
    assert threads[0] is not threading.current_thread()
    assert threads[1] is threading.current_thread()


async def test_what_fails_is_told_to_its_connection_and_others_go_on() -> None:
    tasks: Any = LoginTasks()
    first, second, third = Stranger(), Stranger(), Stranger()
    over = trio.Event()

    def fails() -> None:
        raise TypeError("on purpose")

    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        tasks.in_thread(first, fails, over.set)
        tasks.in_thread(second, int, fails)
        tasks.later(third, 0.0, fails)
        tasks.later(third, 0.01, over.set)
        with trio.fail_after(120):
            await over.wait()
            while first.error is None or second.error is None:  # noqa: ASYNC110
                await trio.sleep(0.005)
        nursery.cancel_scope.cancel()
    assert all(isinstance(each.error, TypeError) for each in (first, second, third))


async def test_who_does_not_log_in_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_tasks, "LOGIN_SECONDS", 0.1)
    monkeypatch.setattr(login_tasks, "_LOOK_SECONDS", 0.02)
    tasks: Any = LoginTasks()
    slow, known = Stranger(), Stranger()
    tasks.expect(slow)
    tasks.expect(known)
    tasks.forget(known)
    async with trio.open_nursery() as nursery:
        await nursery.start(tasks.run)
        await eventually(lambda: slow.closed)
        nursery.cancel_scope.cancel()
    assert not known.closed
