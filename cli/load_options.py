"""Arguments of the commands that write records of their own: `perf` and `verify`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .completion import complete_topics


def load_options(records: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Arguments of a command that writes records of its own; `records`: how many by default."""

    def wrap(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option(
            "--size",
            type=click.IntRange(0),
            default=100,
            show_default=True,
            help="Size of a record in bytes.",
        )(command)
        command = click.option(
            "--records",
            type=click.IntRange(1),
            default=records,
            show_default=True,
            help="Number of records.",
        )(command)
        return click.argument("topic", shell_complete=complete_topics)(command)

    return wrap


rate_option = click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Maximum records per second."
)
