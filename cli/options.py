"""Options and error handling that several commands share."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..broker.resources.descriptors import TooFewDescriptors
from ..broker.resources.visible_text import visible
from ..local import cluster_state
from ..local.secured import ADMIN, USER, SecurityFiles
from .addresses import (
    BOOTSTRAP_KEY,
    USUAL_BOOTSTRAP,
    AddressError,
    SeveralClusters,
    bootstrap_of,
    profile_named,
    read_properties,
)

if TYPE_CHECKING:
    from rich.table import Table

EXIT_STATUS_USER_ERROR = 2
LOCAL_USER, PROFILE = "pybroker.local_user", "pybroker.profile"  # in a context's `meta`
PIPE_COLUMNS = 1000  # a program that reads tables gets whole lines
T = TypeVar("T")


class UserError(click.ClickException):
    """An expected failure: one line with the remedy, exit status 2."""

    exit_code = EXIT_STATUS_USER_ERROR

    def format_message(self) -> str:
        return visible(self.message)


def data_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=cluster_state.default_data_dir,
        show_default="$PYBROKER_DATA_DIR or ~/.pybroker",
        help="Directory of the cluster.",
    )(command)


def bootstrap_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--bootstrap-server",
        "bootstrap",
        default=default_bootstrap,
        show_default="that of --profile, $PYBROKER_BOOTSTRAP, the cluster in $PYBROKER_DATA_DIR or "
        f"~/.pybroker, the only running ephemeral cluster, {USUAL_BOOTSTRAP}",
        is_eager=True,
        help="HOST:PORT of one or more brokers, separated by commas.",
    )(command)


def default_bootstrap() -> str:
    """The cluster of a command that names none. Raises UserError."""
    context = click.get_current_context(silent=True)
    try:
        return bootstrap_of(_profile(context))
    except SeveralClusters as error:
        is_completion = context is not None and context.resilient_parsing
        if is_completion or not _is_at_terminal():
            raise UserError(str(error)) from None
        return _chosen(error.clusters)
    except AddressError as error:
        raise UserError(str(error)) from None


def _is_at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _chosen(clusters: Sequence[cluster_state.ClusterState]) -> str:
    """The cluster that the user at the terminal chooses."""
    click.echo(f"{len(clusters)} local clusters are running:", err=True)
    for number, one in enumerate(clusters, 1):
        click.echo(f"  {number}  {one.bootstrap}  in {one.data_dir}", err=True)
    which = click.IntRange(1, len(clusters))
    return clusters[click.prompt("which one", type=which, err=True) - 1].bootstrap


def _profile(context: click.Context | None) -> Path | None:
    """Raises AddressError."""
    return profile_named(None if context is None else context.meta.get(PROFILE))


def command_config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The login, as `security`: from a file, or the admin's own way into a local cluster."""
    command = click.option(
        "--command-config",
        "security",
        type=click.Path(path_type=Path, exists=True, dir_okay=False, readable=True),
        callback=_read_properties,
        metavar="FILE",
        help="File of client properties for TLS and logins, as for Kafka's tools: "
        "security.protocol, ...  [default: the admin's file, for the secured cluster in "
        "$PYBROKER_DATA_DIR or ~/.pybroker]",
    )(command)
    command = click.option(
        "--profile",
        is_eager=True,
        expose_value=False,
        callback=_keep_profile,
        metavar="NAME",
        help="Read address and login from ~/.config/pybroker/NAME.properties.  "
        "[default: $PYBROKER_PROFILE]",
    )(command)
    return click.option(
        "--as",
        "local_user",
        type=click.Choice([ADMIN, USER]),
        is_eager=True,
        expose_value=False,
        callback=_keep_local_user,
        help="Log in to the local secured cluster as one of the two users that it was created "
        "with.",
    )(command)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def table(*columns: str) -> Table:
    """A table in the style of all our tables; no cell is cut short."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, no_wrap=True)
    return made


def show(made: Table) -> None:
    from rich.console import Console

    width = None if sys.stdout.isatty() else PIPE_COLUMNS
    Console(highlight=False, soft_wrap=True, width=width).print(made)


def show_json(found: object) -> None:
    click.echo(json.dumps(found, indent=2))


def escape(text: str) -> str:
    """A name in a table: its brackets are no colours, and it moves no cursor."""
    from rich.markup import escape as escaped

    return escaped(visible(text))


def echo(line: str, *, err: bool = False) -> None:
    """A line with names from outside: it stays one line, and moves no cursor."""
    click.echo(visible(line), err=err)


def principal(text: str) -> str:
    """`alice` is short for `User:alice`."""
    return text if ":" in text else f"User:{text}"


def _keep_local_user(context: click.Context, parameter: click.Parameter, user: str | None) -> None:
    context.meta[LOCAL_USER] = user


def _keep_profile(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    context.meta[PROFILE] = name


def _read_properties(
    context: click.Context, _parameter: click.Parameter, path: Path | None
) -> dict[str, str]:
    try:
        profile = _profile(context) if path is None else None
        if path is None and profile is None:
            return _local_login(
                context.params.get("bootstrap", ""),
                context.meta.get(LOCAL_USER),
                context.params.get("data_dir") or cluster_state.default_data_dir(),
            )
        found = read_properties(path or profile or Path())
    except AddressError as error:
        raise click.BadParameter(str(error)) from None
    found.pop(BOOTSTRAP_KEY, None)
    if found.get("security.protocol", "").upper().startswith("SASL"):
        return _with_jaas_file(found)
    return found


def _with_jaas_file(found: dict[str, str]) -> dict[str, str]:
    """Add the JAAS file that Kafka's own tools have from KAFKA_OPTS; the properties win."""
    options = os.environ.get("KAFKA_OPTS")
    if not options:
        return found
    from ..broker.config.errors import ConfigError
    from ..broker.config.jaas_file import JAAS_FILE
    from ..broker.config.loading import from_jvm_options

    try:
        file = from_jvm_options(options).get(JAAS_FILE)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from None
    return found if file is None else {"java.security.auth.login.config": file, **found}


def _local_login(bootstrap: str, user: str | None, data_dir: Path) -> dict[str, str]:
    """The login at the secured cluster in the data directory, if `bootstrap` is its address."""
    try:
        state = _local_cluster(bootstrap, data_dir)
        found = SecurityFiles(Path(state.data_dir)).client_settings(user or ADMIN) if state else {}
    except cluster_state.ClusterError:
        found = {}
    if user is not None and not found:
        raise UserError(
            f"--as {user} is for the local secured cluster in {data_dir}, and {bootstrap} is not "
            "it; name a file with --command-config"
        )
    return found


def _local_cluster(bootstrap: str, data_dir: Path) -> cluster_state.ClusterState | None:
    state = cluster_state.load(data_dir.absolute())
    is_it = state.secured and bool(_addresses(bootstrap) & _addresses(state.bootstrap))
    return state if is_it else None


def keep_local_password(bootstrap: str, user: str, password: str) -> None:
    """Keep a changed password in the files of the local secured cluster, for its first users."""
    from ..local.client_files import write_client_files

    if user not in (ADMIN, USER):
        return
    with contextlib.suppress(cluster_state.ClusterError):
        state = _local_cluster(bootstrap, cluster_state.default_data_dir())
        if state is not None:
            files = SecurityFiles(Path(state.data_dir))
            files.keep_password(user, password)
            write_client_files(files, state.bootstrap)
            click.echo(f"{files.directory / user} has the new password of {user}", err=True)


def _addresses(bootstrap: str) -> set[str]:
    return {text.strip().replace("localhost:", "127.0.0.1:") for text in bootstrap.split(",")}


def log_format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Format of log lines; json is one object per line.",
    )(command)


def metrics_host_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--metrics-host",
        default="127.0.0.1",
        show_default=True,
        help="Address that --metrics-port listens on; 0.0.0.0: all addresses.",
    )(command)


def parse_overrides(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """`--config KEY=VALUE` options as a dict."""
    overrides = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{value!r} is not KEY=VALUE")
        overrides[key.strip()] = text.strip()
    return overrides


def run_client(function: Callable[[], Awaitable[T]]) -> T:
    """Run a client's main function in a trio loop. Raises UserError for expected failures."""
    import trio

    from ..broker.observability.log_format import show_warnings_only
    from ..client.errors import ClientError

    show_warnings_only()
    try:
        return trio.run(function)
    except ClientError as error:
        raise UserError(str(error)) from None
    except BaseExceptionGroup as group:  # of concurrent tasks: the first one counts
        if group.subgroup(KeyboardInterrupt) is not None:
            raise KeyboardInterrupt from None
        first = _first(group)
        if isinstance(first, ClientError):
            raise UserError(str(first)) from None
        raise first from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def user_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn expected failures into a UserError: one line and exit status 2."""

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except (cluster_state.ClusterError, TooFewDescriptors) as error:
            raise UserError(str(error)) from None

    return wrapped
