"""Options and error handling that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..local import cluster_state
from ..resources.descriptors import TooFewDescriptors

EXIT_STATUS_USER_ERROR = 2
T = TypeVar("T")


class UserError(click.ClickException):
    """An expected failure: one line that says what to do, exit status 2."""

    exit_code = EXIT_STATUS_USER_ERROR


def data_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=cluster_state.default_data_dir,
        show_default="$PYBROKER_DATA_DIR or ~/.pybroker",
        help="The cluster's directory.",
    )(command)


def bootstrap_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--bootstrap-server",
        "bootstrap",
        default="127.0.0.1:9092",
        show_default=True,
        help="HOST:PORT of any broker, several separated by commas.",
    )(command)


def command_config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--command-config",
        "security",
        type=click.Path(path_type=Path, exists=True, dir_okay=False, readable=True),
        callback=_read_properties,
        metavar="FILE",
        help="Properties for TLS and logins, as Kafka's tools have them: security.protocol, ...",
    )(command)


def _read_properties(
    _context: click.Context, _parameter: click.Parameter, path: Path | None
) -> dict[str, str]:
    if path is None:
        return {}
    import javaproperties

    try:
        return dict(javaproperties.loads(path.read_text("utf-8")))
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{path} cannot be read as properties: {error}") from None


def metrics_host_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--metrics-host",
        default="127.0.0.1",
        show_default=True,
        help="Address that --metrics-port listens on; 0.0.0.0: all.",
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
    """Run a client's main function in a trio loop. Raises UserError for what a user can mend."""
    import trio

    from ...client.errors import ClientError

    try:
        return trio.run(function)
    except ClientError as error:
        raise UserError(str(error)) from None


def user_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what the user can mend into a UserError, so that it is one line and exit status 2."""

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        except (cluster_state.ClusterError, TooFewDescriptors) as error:
            raise UserError(str(error)) from None

    return wrapped
