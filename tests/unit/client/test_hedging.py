"""One question to several brokers: a silent one is passed over, a failed one at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.hedging import first_answer


def played(
    name: str, seconds: float, log: list[str], *, fails: bool = False
) -> Callable[[], Awaitable[str]]:
    async def attempt() -> str:
        log.append(name)
        await trio.sleep(seconds)
        if fails:
            raise ClientError(name)
        return name

    return attempt


@pytest.mark.parametrize(
    ("plan", "answer", "after", "asked"),
    [
        ([("a", 0.5, False), ("b", 0, False)], "a", 0.5, "a"),
        ([("a", 99, False), ("b", 0.1, False)], "b", 1.1, "ab"),
        ([("a", 1.2, False), ("b", 9, False)], "a", 1.2, "ab"),
        ([("a", 0.1, True), ("b", 0.1, False), ("c", 0, False)], "b", 0.2, "ab"),
        ([("a", 9, True), ("b", 3, False)], "b", 4, "ab"),
        ([("a", 99, False), ("b", 99, False), ("c", 0, False)], "c", 2, "abc"),
    ],
)
async def test_the_first_answer_counts(
    plan: list[tuple[str, float, bool]],
    answer: str,
    after: float,
    asked: str,
    autojump_clock: MockClock,
) -> None:
    log: list[str] = []
    begun = trio.current_time()
    attempts = [played(name, seconds, log, fails=fails) for name, seconds, fails in plan]
    assert await first_answer(attempts, 1.0) == answer
    assert trio.current_time() - begun == pytest.approx(after)
    assert "".join(log) == asked


async def test_if_all_fail_the_first_failure_is_raised(autojump_clock: MockClock) -> None:
    log: list[str] = []
    attempts = [played("a", 3, log, fails=True), played("b", 0.1, log, fails=True)]
    with pytest.raises(ClientError, match="b"):
        await first_answer(attempts, 1.0)
    assert trio.current_time() == pytest.approx(3)
