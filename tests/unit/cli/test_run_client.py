"""Whatever goes wrong in a client's loop, a command says it in one line."""

from __future__ import annotations

import logging

import pytest
import trio

from pybroker_kafka.cli.options import UserError, run_client
from pybroker_kafka.client.errors import ClientError


async def fail(error: BaseException) -> None:
    raise error


async def side_by_side(error: BaseException) -> None:
    async with trio.open_nursery() as outer, trio.open_nursery() as inner:
        inner.start_soon(fail, error)
        outer.start_soon(trio.sleep_forever)


@pytest.mark.parametrize("run", [fail, side_by_side])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ClientError("no"), UserError),
        (UserError("no"), UserError),
        (ValueError("no"), ValueError),
        (KeyboardInterrupt("no"), KeyboardInterrupt),
    ],
)
def test_what_is_raised(run: object, error: BaseException, told: type[BaseException]) -> None:
    async def main() -> None:
        await run(error)  # type: ignore[operator]

    with pytest.raises(told, match=r"^no$|^$"):
        run_client(main)


def test_warnings_on_a_terminal_are_one_line() -> None:
    async def nothing() -> None:
        await trio.lowlevel.checkpoint()

    run_client(nothing)
    assert logging.lastResort is not None
    told = logging.makeLogRecord(
        {"msg": "group %s", "args": ("x\n\x1b[2J",), "levelname": "WARNING"}
    )
    assert logging.lastResort.format(told) == "group x\\n\\x1b[2J"
