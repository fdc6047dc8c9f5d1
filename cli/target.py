"""The cluster of a command, and the output of its results: the same for all commands.

Rows are dictionaries: `--json` prints them as they are, a table has their keys as its head. Errors
come after them on the standard error output, one line an item, with exit status 2.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from .options import (
    EXIT_STATUS_USER_ERROR,
    PIPE_COLUMNS,
    UserError,
    bootstrap_option,
    command_config_option,
    echo,
    escape,
    json_option,
    run_client,
    show_json,
    user_errors,
)

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.consumer.consumer import Consumer
    from ..client.producer import Producer

NOTHING = "-"
TABLE_COLUMNS = 80
TIMES = (
    "newest_ms",
    "last_ms",
    "began_ms",
    "committed_ms",
)  # columns with ms since 1970: dates for people
T = TypeVar("T")
Row = Mapping[str, object]


class Target(NamedTuple):
    """A cluster, its login, and whether the output is for a program."""

    bootstrap: str
    security: dict[str, str]
    as_json: bool

    @contextlib.asynccontextmanager
    async def opened(self, *, is_quiet: bool = False) -> AsyncIterator[Admin]:
        """The cluster's administration, inside the block; quiet: waits are not explained."""
        from ..client.admin.admin import Admin
        from ..client.cluster import Cluster

        explain = None if is_quiet else report
        async with Cluster(self.bootstrap, explain, security=self.security) as cluster:
            yield Admin(cluster)

    def consumer(self, **settings: Any) -> Consumer:
        from ..client.consumer.consumer import Consumer

        return Consumer(self.bootstrap, security=self.security, report=report, **settings)

    def producer(self, **settings: Any) -> Producer:
        from ..client.producer import Producer

        return Producer(self.bootstrap, security=self.security, report=report, **settings)

    def ask(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        """Do the work with the cluster in a trio loop. Raises UserError for expected failures."""

        async def run() -> T:
            async with self.opened() as admin:
                return await work(admin)

        return run_client(run)

    def show_found(
        self, rows: Sequence[Row], errors: Mapping[Any, Exception], nothing: str = ""
    ) -> None:
        """Show the results, then the errors, which end the command with status 2.

        `nothing` is shown instead of an empty table, unless there are errors.
        """
        self.show(rows, "" if errors else nothing)
        end_with_errors(errors)

    def show(self, rows: Sequence[Row], nothing: str = "") -> None:
        """Print a table, or JSON; `nothing` is printed instead of an empty table."""
        if self.as_json:
            show_json(list(rows))
        elif rows:
            show_rows(rows)
        elif nothing:
            echo(nothing)

    def report(self, text: str, found: object) -> None:
        """Print the result of one action: a line for people, JSON for programs."""
        if self.as_json:
            show_json(found)
        else:
            echo(text)


def report(line: str) -> None:
    """Explain on the standard error output why nothing happens."""
    echo(line, err=True)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--bootstrap-server, --command-config and --json, as `target`."""

    @functools.wraps(command)
    def wrapped(*args: object, target: Target, as_json: bool, **rest: object) -> object:
        return command(*args, target=target._replace(as_json=as_json), **rest)

    return client_options(json_option(wrapped))


def client_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--bootstrap-server and --command-config, as `target`."""

    @functools.wraps(command)
    def wrapped(*args: object, bootstrap: str, security: dict[str, str], **rest: object) -> object:
        return command(*args, target=Target(bootstrap, security, as_json=False), **rest)

    return bootstrap_option(command_config_option(user_errors(wrapped)))


def show_rows(rows: Sequence[Row]) -> None:
    """On a terminal in 80 columns, long values in several lines; for a pipe a line a row.

    Columns that have nothing in any row are left out.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    is_terminal = sys.stdout.isatty()
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    shown = [name for name in rows[0] if any(row[name] not in (None, "", []) for row in rows)]
    for name in shown:
        is_number = all(isinstance(row[name], int | float | None) for row in rows)
        made.add_column(
            (name.removesuffix("_ms") if name in TIMES else name).replace("_", " "),
            justify="right" if is_number else "left",
            no_wrap=not is_terminal,
            overflow="fold",
        )
    for row in rows:
        made.add_row(*(escape(cell_text(name, row[name])) for name in shown))
    width = min(TABLE_COLUMNS, Console().width) if is_terminal else PIPE_COLUMNS
    Console(highlight=False, width=width).print(made)


def cell_text(name: str, value: object) -> str:
    """The text in a column of this name: sizes in bytes are rounded, times are dates."""
    if name.endswith("bytes") and isinstance(value, int):
        return bytes_text(value)
    if name in TIMES and isinstance(value, int):
        from ..storage.retention import date_text

        return date_text(value)
    return text_of(value)


def bytes_text(size: int) -> str:
    """`17 B`, `4.2 kB`, `1.0 GB`: powers of 1000."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            return f"{value:,.1f} {unit}"
    raise AssertionError(size)


def text_of(value: object) -> str:
    """A value as tables show it."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, list | tuple):
        return ",".join(map(text_of, value)) or NOTHING
    return str(value)


def end_with_errors(errors: Mapping[Any, Exception]) -> None:
    """Print them, and end the command with status 2; nothing if there are none."""
    if not errors:
        return
    for error in errors.values():
        echo(f"Error: {error}", err=True)
    click.get_current_context().exit(EXIT_STATUS_USER_ERROR)


def pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    """KEY=VALUE arguments. Raises UserError."""
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise UserError(f"{text!r} is not {what}")
        found[key.strip()] = value.strip()
    return found
