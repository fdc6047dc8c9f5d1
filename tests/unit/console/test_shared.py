"""One question for all browsers; slow ones are let go; what records look like."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.console.live import BROWSERS_MAX, WAITING_MAX, Live, TooMany
from pybroker_kafka.console.messages import HEX_BYTES, SHOWN_BYTES, shown_bytes
from pybroker_kafka.console.shared import ANSWERS_MAX, Shared


async def test_all_who_ask_at_a_time_are_given_one_answer(
    autojump_clock: trio.testing.MockClock,
) -> None:
    shared, asked, given_ = Shared(), list[float](), list[int]()

    async def ask() -> int:
        asked.append(trio.current_time())
        await trio.sleep(1)
        return len(asked)

    async def want() -> None:
        given_.append(await shared.get("x", 2.0, ask))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(want)
    assert given_ == [1] * 5
    assert await shared.get("x", 2.0, ask) == 1
    await trio.sleep(3)
    assert await shared.get("x", 2.0, ask) == 2


async def test_an_error_is_not_kept(autojump_clock: trio.testing.MockClock) -> None:
    shared = Shared()

    async def fail() -> int:
        raise ValueError

    async def succeed() -> int:
        return 1

    with pytest.raises(ValueError):
        await shared.get("x", 9.0, fail)
    assert await shared.get("x", 9.0, succeed) == 1
    for number in range(2 * ANSWERS_MAX):
        await shared.get(str(number), 9.0, succeed)
    assert await shared.get("x", 9.0, succeed) == 1


async def test_a_browser_that_does_not_read_is_let_go() -> None:
    live = Live(lambda: {"kind": "all"})
    messages = live.follow()
    assert json.loads((await anext(messages))[6:]) == {"kind": "all"}
    live.send({"kind": "nodes", "text": "a\nb"})
    assert json.loads((await anext(messages))[6:]) == {"kind": "nodes", "text": "a\nb"}
    for _ in range(WAITING_MAX + 1):
        live.send({"kind": "nodes"})
    assert len([line async for line in messages]) == WAITING_MAX


async def test_so_many_browsers_and_no_more() -> None:
    live = Live(dict)
    open_now = [live.follow() for _ in range(BROWSERS_MAX)]
    for messages in open_now:
        await anext(messages)
    with pytest.raises(TooMany):
        live.follow()
    for messages in open_now:
        await messages.aclose()  # type: ignore[attr-defined]
    live.follow()


@given(st.text(max_size=50).map(str.encode) | st.binary(max_size=100))
def test_short_contents_are_shown_whole(content: bytes) -> None:
    shown = shown_bytes(content)
    assert shown is not None
    assert bytes.fromhex(shown["hex"]) == content
    assert shown["size"] == len(content)
    try:
        assert shown["text"] == content.decode()
    except UnicodeDecodeError:
        assert shown["text"] is None


def test_of_long_contents_the_beginning_is_shown() -> None:
    assert shown_bytes(None) is None
    shown = shown_bytes(b"x" + "€".encode() * SHOWN_BYTES)
    assert shown is not None
    assert shown["text"] == "x" + "€" * ((SHOWN_BYTES - 1) // 3)
    assert len(bytes.fromhex(shown["hex"])) == HEX_BYTES
