"""`pybroker broker server.properties` and `pybroker zookeeper`: one server in the foreground."""

from __future__ import annotations

import os
from pathlib import Path

import click

from .options import log_format_option, metrics_host_option, parse_overrides, user_errors


@click.command(
    epilog="""Environment variables such as KAFKA_LOG_DIRS and KAFKA_ZOOKEEPER_CONNECT
(with Bitnami's names, KAFKA_CFG_LOG_DIRS) override the file.

Settings of one KRaft node (process.roles, controller.quorum.voters, a CONTROLLER
listener) run with an embedded ZooKeeper, as with --standalone.

\b
Examples:
  pybroker broker server.properties
  pybroker broker server.properties --override broker.id=2 --metrics-port 7071
  KAFKA_ZOOKEEPER_CONNECT=zk1:2181 KAFKA_LOG_DIRS=/data/kafka pybroker broker
  KAFKA_LOG_DIRS=/data/kafka pybroker broker --standalone
"""
)
@click.argument("properties", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--override",
    "overrides",
    multiple=True,
    callback=parse_overrides,
    metavar="KEY=VALUE",
    help="Override a key of the file; may be repeated.",
)
@click.option(
    "--standalone",
    is_flag=True,
    help="Without zookeeper.connect, run an embedded ZooKeeper for this broker alone, with its "
    "data in the first of log.dirs.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve Prometheus metrics on this port.",
)
@metrics_host_option
@click.option("--verbose", is_flag=True, help="Log at level DEBUG.")
@log_format_option
@user_errors
def broker(
    properties: Path | None,
    overrides: dict[str, str],
    standalone: bool,
    metrics_port: int | None,
    metrics_host: str,
    verbose: bool,
    log_format: str,
) -> None:
    """Run one broker from a server.properties file, until Ctrl-C or SIGTERM."""
    from ..local import node_process

    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    node_process.run_foreground_broker(
        properties,
        overrides,
        metrics,
        standalone=standalone,
        verbose=verbose,
        log_format=log_format,
    )


@click.command(
    epilog="""\b
Examples:
  pybroker zookeeper
  pybroker zookeeper --port 2181 --data-dir /var/lib/zookeeper
  pybroker zookeeper --data-dir /data/zk --credentials /etc/zk.secret
  pybroker zookeeper --data-dir /var/lib/zookeeper --cut-damaged-log
  pybroker zookeeper zoo.cfg
  ZOO_MY_ID=1 ZOO_SERVERS='server.1=zk1:2888:3888;2181 ...' pybroker zookeeper
"""
)
@click.argument("config", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=2181, show_default=True, type=click.IntRange(0, 65535))
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory of the transaction log and snapshots. Default: keep nothing on disk.",
)
@click.option(
    "--credentials",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="A file of mode 0600 with one line user:password. Clients that do not log in with it "
    "(digest) are rejected. Set the same file for brokers with "
    "pybroker.zookeeper.credentials.file.",
)
@click.option(
    "--cut-damaged-log",
    is_flag=True,
    help="Do not run, but cut the transaction log at its first damaged byte, so that ZooKeeper "
    "starts again. All later changes are lost; the cut bytes are kept in a file torn.log beside "
    "the log.",
)
@click.option("--verbose", is_flag=True, help="Log at level DEBUG.")
@log_format_option
@user_errors
def zookeeper(
    config: Path | None,
    host: str,
    port: int,
    data_dir: Path | None,
    credentials: Path | None,
    cut_damaged_log: bool,
    verbose: bool,
    log_format: str,
) -> None:
    """Run the embedded ZooKeeper alone, until Ctrl-C or SIGTERM.

    With a zoo.cfg that has servers (server.1=host:2888:3888), run a member of their ensemble, the
    one whose number is in the file `myid` of dataDir; Apache ZooKeeper 3.9 can run the others.
    Without a file, the variables ZOO_SERVERS, ZOO_MY_ID, ZOO_DATA_DIR and so on do the same, as in
    the image `zookeeper`.
    """
    from ..broker.resources.late_import import import_at_first_use

    for unused in ("idna", "ssl"):  # unless a name or TLS needs them; trio imports both
        import_at_first_use(unused)
    from ..local import node_process
    from ..zookeeper.quorum.environment import SERVERS, has_ensemble

    if config is not None or (has_ensemble(os.environ) and not (cut_damaged_log and data_dir)):
        given = [name for name in ("host", "port", "data_dir", "credentials") if _is_given(name)]
        if given:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise click.UsageError(f"{options}: {config or SERVERS} has all settings")
        if not cut_damaged_log:
            node_process.run_foreground_member(config, verbose=verbose, log_format=log_format)
            return
    elif cut_damaged_log and data_dir is None:
        raise click.UsageError("--cut-damaged-log needs --data-dir or a zoo.cfg")
    if cut_damaged_log:
        for line in node_process.cut_zookeeper_log(data_dir, config):
            click.echo(line)
        return
    node_process.run_foreground_zookeeper(
        data_dir, host, port, credentials, verbose=verbose, log_format=log_format
    )


def _is_given(name: str) -> bool:
    """Whether the user has given this option of the command that runs."""
    source = click.get_current_context().get_parameter_source(name)
    return source is click.core.ParameterSource.COMMANDLINE
