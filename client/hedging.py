"""One request to several brokers: the next is asked when the last is silent or has failed.

A paused or isolated broker keeps its connections open and sends nothing; a caller should not wait
for a timeout when any other broker could answer. Only for requests without an effect: several may
be executed.
Invariants: no attempt is started twice; the first answer is returned, the others are cancelled; if
all fail, the first failure is raised without further delay.

Java's client has no counterpart: it waits for request.timeout.ms and then asks another broker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

import trio

from .errors import ClientError

T = TypeVar("T")


class _Race(Generic[T]):
    """The results of the attempts."""

    def __init__(self) -> None:
        self.answers: list[T] = []
        self.failures: list[ClientError] = []
        self.running = 0
        self.news = trio.Event()

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> None:
        try:
            self.answers.append(await attempt())
        except ClientError as error:
            self.failures.append(error)
        self.running -= 1
        self.news.set()
        self.news = trio.Event()


async def first_answer(
    attempts: Iterable[Callable[[], Awaitable[T]]], patience_seconds: float
) -> T:
    """The first answer; an attempt starts when the previous one has failed or been silent so long.

    Raises ClientError: the first failure, if there is no answer. There is at least one attempt.
    """
    race: _Race[T] = _Race()
    async with trio.open_nursery() as nursery:
        for attempt in attempts:
            news = race.news
            race.running += 1
            nursery.start_soon(race.run, attempt)
            with trio.move_on_after(patience_seconds):
                await news.wait()
            if race.answers:
                break
        while race.running and not race.answers:
            await race.news.wait()
        nursery.cancel_scope.cancel()
    if race.answers:
        return race.answers[0]
    raise race.failures[0]
