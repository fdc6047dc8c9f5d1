"""Servers that run in the foreground until a signal, or until the supervisor of a cluster ends.

Attached to `pybroker start` (`--until-stdin-ends`), the first line is JSON for that command: the
address, or the error; and the server ends when its parent process is gone.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Awaitable, Callable

import click

from .options import UserError


def run_server(
    serve: Callable[[Callable[[str], None]], Awaitable[None]],
    describe: Callable[[str], str],
    attached: bool,
    expected: tuple[type[Exception], ...],
) -> None:
    """Run `serve`, which calls its argument with the address; `describe` makes the text for people.
    Raises UserError for the `expected` exceptions."""
    import trio

    from ..broker.observability.log_format import show_warnings_only

    show_warnings_only()

    def announce(address: str) -> None:
        click.echo(json.dumps({"address": address}) if attached else describe(address))

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_with_signal, nursery.cancel_scope.cancel)
            if attached:
                nursery.start_soon(_end_with_stdin, nursery.cancel_scope.cancel)
            await serve(announce)

    problem = ""
    try:
        trio.run(main)
    except* expected as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        problem = str(error)
    if problem and attached:
        click.echo(json.dumps({"error": problem}))
    if problem:
        raise UserError(problem)


async def _end_with_stdin(end: Callable[[], None]) -> None:
    """Call `end` when standard input ends, to which nothing is ever written."""
    import trio

    await trio.lowlevel.wait_readable(sys.stdin.fileno())
    end()


async def _end_with_signal(end: Callable[[], None]) -> None:
    import trio

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            end()
