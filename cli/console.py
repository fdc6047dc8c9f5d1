"""`pybroker console`: pages about a cluster, in a browser on this machine.

With --until-stdin-ends it belongs to `pybroker start --console`, see `attached`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..local import cluster_state
from ..local.cluster_state import ClusterError
from .attached import run_server, server_options
from .beside import CONSOLE_PORT
from .options import user_errors
from .registry import registry_at

if TYPE_CHECKING:
    from ..console.server import ConsoleOptions


def _metrics_addresses(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[int, tuple[str, int]]:
    found = {}
    for one in given:
        broker, _, address = one.partition("=")
        host, _, port = address.rpartition(":")
        if not (broker.isdecimal() and host and port.isdecimal()):
            raise click.BadParameter(f"{one!r} is not BROKER=HOST:PORT, as 1=kafka-1:9404")
        found[int(broker)] = (host.strip("[]"), int(port))
    return found


@click.command(
    epilog="""\b
Examples:
  pybroker console
  pybroker console --bootstrap-server kafka:9092 --command-config tls.conf
  pybroker console --port 0 --console-write
"""
)
@click.option(
    "--port",
    default=CONSOLE_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port on 127.0.0.1. 0: any free port.",
)
@click.option(
    "--console-write",
    "may_write",
    is_flag=True,
    help="Let the console change the cluster: produce, create, delete, reset offsets, stop nodes.",
)
@click.option(
    "--registry-url",
    "--registry",
    metavar="URL",
    help="Decode Avro, Protobuf and JSON Schema to JSON with this schema registry; needs the "
    "extra pybroker-kafka[schemas].",
)
@click.option(
    "--metrics",
    multiple=True,
    metavar="BROKER=HOST:PORT",
    callback=_metrics_addresses,
    help="Metrics address of a broker outside a local cluster; may be repeated.",
)
@server_options(
    "Of a local cluster, whose nodes are shown too.  [default: that of the cluster, if it is "
    "the one in $PYBROKER_DATA_DIR or ~/.pybroker]"
)
@user_errors
def console(
    port: int,
    may_write: bool,
    data_dir: Path | None,
    registry_url: str | None,
    metrics: dict[int, tuple[str, int]],
    attached: bool,
    bootstrap: str,
    security: dict[str, str],
) -> None:
    """Serve a web console that shows the present state of brokers, topics and groups.

    The printed address contains a secret token; do not share it.
    """
    from ..client.errors import ClientError
    from ..console.server import CannotServe, ConsoleOptions, serve_console

    options = ConsoleOptions(
        bootstrap=bootstrap,
        security=security,
        port=port,
        data_dir=data_dir,
        may_write=may_write,
        registry=registry_at(registry_url) if registry_url else None,
        metrics=metrics,
    )
    options = _of_local_cluster(options)
    run_server(
        lambda announce: serve_console(options, announce),
        lambda address: _announced(address, options),
        attached,
        (CannotServe, ClientError),
    )


def _of_local_cluster(options: ConsoleOptions) -> ConsoleOptions:
    """The options with the nodes of the cluster in the data directory, if it is the console's."""
    from .cluster_table import security_of

    directory = (options.data_dir or cluster_state.default_data_dir()).absolute()
    try:
        state = cluster_state.load(directory)
    except ClusterError:
        if options.data_dir is not None:
            raise
        return options
    if options.data_dir is not None:
        security = options.security or security_of(state)
        return options._replace(bootstrap=state.bootstrap, security=security, data_dir=directory)
    is_it = options.bootstrap in (state.bootstrap, *state.bootstrap.split(","))
    return options._replace(data_dir=directory) if is_it else options


def _announced(address: str, options: ConsoleOptions) -> str:
    what = "may be changed here" if options.may_write else "is shown, not changed"
    return f"console: {address}\n{options.bootstrap} {what}; Ctrl-C ends it"
