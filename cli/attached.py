"""Servers that run in the foreground until a signal, or until the supervisor of a cluster ends.

Attached to `pybroker start` (`--until-stdin-ends`), the first line is JSON for that command: the
address, or the error; and the server ends when its parent process is gone.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import click

from ..local import cluster_state
from ..local.cluster_state import ClusterError
from .options import UserError, command_config_option, default_bootstrap

Decorator: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]


def _bootstrap_of_data_dir() -> str:
    """The default of --bootstrap-server with --data-dir. Raises UserError."""
    directory = click.get_current_context().params.get("data_dir")
    if not isinstance(directory, Path):  # while options are read, click has a sentinel for None
        return default_bootstrap()
    try:
        return cluster_state.load(directory.absolute()).bootstrap
    except ClusterError as error:
        raise UserError(str(error)) from None


def server_options(data_dir_help: str) -> Decorator:
    """The options by which a server finds its cluster: `data_dir`, `attached`, `bootstrap` and
    `security`."""
    options: tuple[Decorator, ...] = (
        click.option(
            "--data-dir",
            is_eager=True,  # it decides the default of --bootstrap-server
            type=click.Path(path_type=Path, file_okay=False),
            help=data_dir_help,
        ),
        click.option("--until-stdin-ends", "attached", is_flag=True, hidden=True),
        click.option(
            "--bootstrap-server",
            "bootstrap",
            default=_bootstrap_of_data_dir,
            show_default="of --data-dir, else as for other commands",
            is_eager=True,
            help="HOST:PORT of any broker, several separated by commas.",
        ),
        command_config_option,
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


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
