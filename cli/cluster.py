"""`pybroker start`: a local cluster for a laptop or a CI job."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..local import cluster_state
from ..local.cluster_spec import DEFAULT_BROKERS
from ..local.cluster_state import MAX_BROKERS, MAX_ZOOKEEPERS, ClusterError, ClusterState
from ..local.free_ports import LOOPBACK, take_ports
from .beside import CONSOLE_PORT, REGISTRY_PORT, BesideProcess, Besides
from .options import (
    data_dir_option,
    echo,
    log_format_option,
    metrics_host_option,
    parse_overrides,
    user_errors,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ..local.cluster_spec import ClusterSpec
    from ..local.secured import SecurityFiles


@click.command(
    epilog="""\b
Examples:
  pybroker start
  pybroker start --ephemeral --port 0 --zookeeper-port 0
  pybroker start --zookeepers 3
  pybroker start --config num.partitions=4 --config flush.messages=1
  pybroker start --secure
  pybroker start --tier /srv/tier
  pybroker start --console --console-write
  pybroker start --registry
  pybroker start --zookeeper zk1:2181,zk2:2181/kafka --detach
"""
)
@click.option(
    "--brokers",
    type=click.IntRange(1, MAX_BROKERS),
    metavar="N",
    help="Number of brokers, with the ids 1 to N.  [default: as many as have data in --data-dir, "
    f"or {DEFAULT_BROKERS}]",
)
@click.option(
    "--port",
    default=9092,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of broker 1; the other brokers take the next ports. 0: any free port.",
)
@click.option(
    "--zookeeper-port",
    default=2181,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the embedded ZooKeeper; more of them take the next ports. 0: any free port.",
)
@click.option(
    "--zookeepers",
    type=click.IntRange(1, MAX_ZOOKEEPERS),
    metavar="N",
    help="Number of embedded ZooKeepers: one, or the members of an ensemble, a minority of which "
    "may be lost.  [default: as many as have data in --data-dir, or 1]",
)
@click.option(
    "--zookeeper",
    "zookeeper_connect",
    metavar="HOST:PORT",
    help="Use this ensemble instead of the embedded ZooKeeper.",
)
@click.option(
    "--zookeeper-credentials",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A file of mode 0600 with one line user:password. The brokers log in to ZooKeeper with "
    "it; the embedded ZooKeeper rejects clients without it.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="Require TLS, password logins and ACLs. A cluster that was started with --secure no "
    "longer starts without it.",
)
@data_dir_option
@click.option(
    "--tier",
    metavar="DIR|URL",
    help="Tiered storage: topics with --tiered keep their old segments in this directory, or in an "
    "object store such as s3://BUCKET/PREFIX.",
)
@click.option(
    "--ephemeral",
    is_flag=True,
    help="Keep the data in a temporary directory that is removed at the end.",
)
@click.option(
    "--config",
    "overrides",
    multiple=True,
    callback=parse_overrides,
    metavar="KEY=VALUE",
    help="Set any key of server.properties; may be repeated.",
)
@click.option(
    "--features",
    "release",
    type=click.Choice(["3.9", "4.0", "4.1", "4.2", "4.3"]),
    metavar="RELEASE",
    help="Give a new cluster the features of this release of Kafka, 3.9 to 4.3.  "
    "[default: $PYBROKER_FEATURES or 4.3]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve Prometheus metrics of broker 1 on this port; the other brokers take the next "
    "ports.",
)
@metrics_host_option
@click.option(
    "--console/--no-console",
    "has_console",
    help="Serve a web console of the cluster and print its address.",
)
@click.option(
    "--console-port",
    default=CONSOLE_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the console on 127.0.0.1. 0: any free port.",
)
@click.option(
    "--console-write",
    is_flag=True,
    help="With --console: let the console change the cluster.",
)
@click.option(
    "--registry/--no-registry",
    "has_registry",
    help="Serve a schema registry of the cluster and print its address.",
)
@click.option(
    "--registry-port",
    default=REGISTRY_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the schema registry on 127.0.0.1. 0: any free port.",
)
@click.option(
    "--registry-url",
    metavar="URL",
    help="With --console: decode Avro, Protobuf and JSON Schema to JSON with this schema "
    "registry; needs the extra pybroker-kafka[schemas].",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Run in the background and return once the cluster is ready; stop it with pybroker stop.",
)
@click.option(
    "--until-eof",
    is_flag=True,
    help="Stop when standard input ends or has data. With a pipe from another program as standard "
    "input, the cluster stops when that program ends, even by a crash.",
)
@click.option("--verbose", is_flag=True, help="Log at level DEBUG.")
@log_format_option
@user_errors
def start(
    brokers: int | None,
    port: int,
    zookeeper_port: int,
    zookeepers: int | None,
    zookeeper_connect: str | None,
    zookeeper_credentials: Path | None,
    secure: bool,
    data_dir: Path,
    tier: str | None,
    ephemeral: bool,
    overrides: dict[str, str],
    release: str | None,
    metrics_port: int | None,
    metrics_host: str,
    has_console: bool,
    console_port: int,
    console_write: bool,
    has_registry: bool,
    registry_port: int,
    registry_url: str | None,
    detach: bool,
    until_eof: bool,
    verbose: bool,
    log_format: str,
) -> None:
    """Start a local cluster, with its own ZooKeeper, and wait until it is ready.

    In a value of --config, {id} stands for the broker's id: --config broker.rack=rack-{id}.

    Ctrl-C stops it. The data stays in --data-dir for the next start.
    """
    from ..broker.resources import descriptors
    from ..local import cluster_spec, zookeeper_nodes

    descriptors.raise_descriptor_limit()
    if has_registry and not registry_port:
        registry_port = take_ports(1, set())  # brokers have it in their configs before it listens
    registry = _registry_address(has_registry, registry_port, registry_url)
    data_dir = (_ephemeral_directory(data_dir) if ephemeral else data_dir).absolute()
    overrides, is_translated = _with_environment(overrides)
    remembered = cluster_spec.remembered_brokers(data_dir)
    security = _security(data_dir, remembered) if secure else None
    if security is not None and zookeeper_connect is None and zookeeper_credentials is None:
        zookeeper_credentials = security.zookeeper
    spec = cluster_spec.ClusterSpec(
        data_dir=data_dir,
        broker_count=brokers or (1 if is_translated else remembered or DEFAULT_BROKERS),
        first_port=port,
        zookeeper_port=zookeeper_port,
        zookeeper_count=zookeepers or zookeeper_nodes.remembered_zookeepers(data_dir) or 1,
        zookeeper_connect=zookeeper_connect,
        zookeeper_credentials=zookeeper_credentials and zookeeper_credentials.absolute(),
        security=security,
        ephemeral=ephemeral,
        tier=tier,
        registry=registry,
        release=release or cluster_state.release_of_new_clusters(),
        overrides=overrides,
        metrics_host=metrics_host,
        # The console shows the brokers' metrics.
        first_metrics_port=0 if has_console and metrics_port is None else metrics_port,
        verbose=verbose,
        log_format=log_format,
    )
    _warn_of_fewer(spec.broker_count, remembered)
    started = time.monotonic()
    owner = _owner() if until_eof else None
    write = ["--console-write"] if console_write else []
    console = BesideProcess("console", data_dir, console_port, *write) if has_console else None
    beside = BesideProcess("registry", data_dir, registry_port) if has_registry else None
    besides = Besides(console, beside, registry_url or "")
    sys.exit((_start_detached if detach else _start_here)(spec, started, besides, owner))


def _with_environment(overrides: dict[str, str]) -> tuple[dict[str, str], bool]:
    """The overrides with those of the environment, and whether variables of another image of Kafka
    were translated, for one broker. Raises ClusterError."""
    from ..broker.config import ConfigError
    from ..broker.config.loading import for_local_cluster

    try:
        found, translated = for_local_cluster(os.environ, overrides)
    except ConfigError as error:
        raise ClusterError(str(error)) from None
    if translated:
        click.echo(translated, err=True)
    return found, bool(translated)


def _registry_address(has_registry: bool, port: int, url: str | None) -> str | None:
    """Raises UserError for a bad `url`, before anything starts."""
    if url:
        from .registry import registry_at

        registry_at(url)
        return url
    return f"http://{LOOPBACK}:{port}" if has_registry else None


def _security(data_dir: Path, remembered: int) -> SecurityFiles:
    """The files of a secured cluster, with a warning if the cluster was open before."""
    from ..local import secured

    security = secured.SecurityFiles(data_dir)
    if remembered and not security.exists:
        click.secho(
            "this cluster was open until now: from this start on clients must log in, and who has "
            "been in its ZooKeeper before may have left something there",
            err=True,
            fg="yellow",
        )
    return security


def _ephemeral_directory(data_dir: Path) -> Path:
    from ..local.ephemeral import EphemeralDirectory

    if data_dir != cluster_state.default_data_dir():
        raise ClusterError("--ephemeral keeps nothing; leave out --data-dir")
    return EphemeralDirectory().path


def _start_here(spec: ClusterSpec, started: float, besides: Besides, owner: int | None) -> int:
    """Run the supervisor in this process until the cluster ends."""

    def on_ready(state: ClusterState, seconds: float, besides_lines: str) -> None:
        with contextlib.suppress(OSError):  # the output is closed, but the cluster runs
            _announce(spec, state, seconds, besides_lines)

    return _supervise(spec, started, on_ready, besides, owner)


def _owner() -> int:
    """A descriptor whose end of file also ends this cluster. Raises ClusterError."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # it is closed
        mode = 0
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(0)):
        raise ClusterError("--until-eof waits for the end of a pipe or a terminal; give it one")
    return os.dup(0)


def _warn_of_fewer(wanted: int, remembered: int) -> None:
    if wanted >= remembered:
        return
    left_out = ", ".join(str(broker_id) for broker_id in range(wanted + 1, remembered + 1))
    click.secho(
        f"warning: there is data of {remembered} brokers, and only {wanted} will run: partitions "
        f"that are in sync only on broker {left_out} have no leader until they run, too; start all "
        f"with --brokers {remembered}, or without --brokers",
        err=True,
        fg="yellow",
    )


def _supervise(
    spec: ClusterSpec,
    started: float,
    on_ready: Callable[[ClusterState, float, str], None],
    besides: Besides,
    owner: int | None,
) -> int:
    """`on_ready` is also given the seconds that it took, and lines about servers beside it."""
    from ..local.supervisor import Supervisor

    record = cluster_state.SupervisorLog(spec.data_dir)

    def report(line: str) -> None:
        record.add(line)
        echo(line, err=True)

    def ready(state: ClusterState) -> None:
        took = time.monotonic() - started
        on_ready(state, took, besides.start())

    try:
        status = Supervisor(spec, report, owner).run(ready)
    finally:
        besides.stop()
    if not spec.ephemeral:
        with contextlib.suppress(OSError):
            click.echo(f"stopped; the data is in {spec.data_dir}", err=True)
    return status


def _start_detached(spec: ClusterSpec, started: float, besides: Besides, owner: int | None) -> int:
    """Fork the supervisor into a session of its own; wait for its word; print the table."""
    record = cluster_state.SupervisorLog(spec.data_dir)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        os.setsid()
        code = 1
        try:
            with open(os.devnull, "r+b") as null:
                for stream in (0, 1, 2):
                    os.dup2(null.fileno(), stream)

            def on_ready(_state: ClusterState, seconds: float, line: str) -> None:
                _write_report(write_end, {"ready": True, "seconds": seconds, "besides": line})

            code = _supervise(spec, started, on_ready, besides, owner)
        except BaseException as error:
            with contextlib.suppress(OSError):
                _write_report(write_end, {"error": str(error)})
        finally:
            os._exit(code)
    os.close(write_end)
    try:
        with os.fdopen(read_end, "rb") as pipe:
            line = pipe.readline()
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        raise
    for reported in record.news():
        echo(reported, err=True)
    message: dict[str, Any] = (
        json.loads(line) if line else {"error": "the supervisor died while starting"}
    )
    if "error" in message:
        raise ClusterError(message["error"])
    state = cluster_state.load(spec.data_dir)
    _announce(spec, state, message["seconds"], message["besides"])
    click.echo(f"Stop it with: pybroker stop --data-dir {spec.data_dir}")
    return 0


def _write_report(descriptor: int, message: dict[str, object]) -> None:
    os.write(descriptor, json.dumps(message).encode() + b"\n")
    os.close(descriptor)


def _announce(spec: ClusterSpec, state: ClusterState, seconds: float, besides_lines: str) -> None:
    """The table of nodes, the bootstrap string, servers beside it, and three lines to paste."""
    import trio
    from rich.console import Console

    from ..local.cluster_spec import remembered_brokers
    from .cluster_table import look_at, node_table, partition_line

    console = Console(highlight=False, soft_wrap=True)
    console.print(node_table(state, None))
    defaults = spec.local_defaults().items()
    changed = ", ".join(f"{key}={text}" for key, text in defaults if key not in spec.overrides)
    console.print(f"[dim]set for a local cluster: {changed}[/]")
    color = "green"
    if spec.broker_count < remembered_brokers(spec.data_dir):
        color = "yellow"
        console.print(partition_line(trio.run(look_at, state)))
    console.print(
        f"[bold {color}]ready[/] after {seconds:.2f} s    "
        f"bootstrap servers: [bold]{state.bootstrap}[/]    data and logs: {state.data_dir}"
    )
    if besides_lines:
        console.print(besides_lines, markup=False)
    if spec.security is None:
        console.print(
            "\n  from kafka import KafkaProducer\n"
            f'  producer = KafkaProducer(bootstrap_servers="{state.bootstrap}")\n'
            '  producer.send("greetings", b"hello").get(timeout=10)\n',
            style="cyan",
        )
    else:
        _announce_security(console, spec.security)


def _announce_security(console: Console, security: SecurityFiles) -> None:
    """Show the paths of the settings; they hold passwords, so they are not shown themselves."""
    from ..local.client_files import FILES
    from ..local.secured import ADMIN, CLIENT_PROPERTIES, USER

    console.print(
        f"[bold green]secured[/]: TLS, logins with passwords (SCRAM) and ACLs; "
        f"{ADMIN} may do everything, {USER} may create, write and read topics\n"
        "settings ready to paste or to run, readable by you alone:\n"
    )
    for name, what in FILES.items():
        console.print(f"  [cyan]{security.directory / USER / name}[/]    {what}")
    properties = security.directory / ADMIN / CLIENT_PROPERTIES
    is_found = security.directory.parent == cluster_state.default_data_dir().absolute()
    ours = "find them by themselves" if is_found else f"take --command-config {properties}"
    console.print(f"\nthe same for {ADMIN} in {properties.parent}; our own commands {ours}\n")
