"""`pybroker registry`: a schema registry over a cluster; and `--registry URL` of other commands.

With --until-stdin-ends it belongs to `pybroker start --registry`, see `attached`.
"""

from __future__ import annotations

from pathlib import Path

import click

from ..client.schemas import Registry, SchemaError
from ..local import cluster_state
from .attached import run_server, server_options
from .beside import REGISTRY_PORT
from .options import UserError, user_errors


def registry_at(url: str) -> Registry:
    """Raises UserError."""
    try:
        return Registry(url)
    except SchemaError as error:
        raise UserError(f"--registry {error}") from None


_file = click.Path(path_type=Path, exists=True, dir_okay=False, readable=True)


@click.command(
    epilog="""\b
Examples:
  pybroker registry
  pybroker registry --bootstrap-server kafka:9092 --command-config tls.conf
  pybroker registry --host 0.0.0.0 --advertised-host sr1.example.com
  pybroker registry --certificate sr.pem --key sr.key --users users.txt

\b
In Python, with pip install "confluent-kafka[avro,schemaregistry]":
  from confluent_kafka.schema_registry import SchemaRegistryClient
  registry = SchemaRegistryClient({"url": "http://127.0.0.1:8081"})
"""
)
@click.option(
    "--port",
    default=REGISTRY_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on. 0: any free port.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0: all addresses.",
)
@click.option(
    "--advertised-host",
    metavar="HOST",
    help="Name by which the other instances reach this one.  [default: --host]",
)
@click.option(
    "--certificate",
    type=_file,
    metavar="FILE",
    help="Serve HTTPS with this certificate (PEM), its chain included.",
)
@click.option("--key", type=_file, metavar="FILE", help="Key of --certificate, if it is not in it.")
@click.option(
    "--ca",
    type=_file,
    metavar="FILE",
    help="Certificates to trust for other instances.  [default: --certificate]",
)
@click.option(
    "--users",
    type=_file,
    metavar="FILE",
    help="Require logins: lines NAME:PASSWORD. The same file for all instances.",
)
@click.option(
    "--topic",
    default="_schemas",
    show_default=True,
    help="Topic of the schemas, created if it is missing.",
)
@click.option(
    "--group",
    default="schema-registry",
    show_default=True,
    help="Group in which the instances of one registry elect their primary.",
)
@click.option(
    "--session-timeout-ms",
    default=10_000,
    show_default=True,
    type=click.IntRange(100),
    help="Time after which a primary that is silent is replaced.",
)
@click.option(
    "--read-only",
    is_flag=True,
    help="Never become primary: serve reads, and forward writes.",
)
@server_options("Of a local cluster, whose brokers are used.")
@user_errors
def registry(
    port: int,
    host: str,
    advertised_host: str | None,
    certificate: Path | None,
    key: Path | None,
    ca: Path | None,
    users: Path | None,
    topic: str,
    group: str,
    session_timeout_ms: int,
    read_only: bool,
    data_dir: Path | None,
    attached: bool,
    bootstrap: str,
    security: dict[str, str],
) -> None:
    """Serve a schema registry with Confluent's REST API, until Ctrl-C.

    Producers register the schema of their records, consumers fetch it by the id in each record,
    and a schema that would break readers is refused. Schemas are kept in a topic of the cluster,
    with the records that Confluent's registry writes. Several instances with the same --group are
    one registry: one of them is primary and writes, the others forward to it.

    JSON Schema and Protobuf need the extra pybroker-kafka[schemas]; Avro needs nothing.
    """
    from ..client.errors import ClientError
    from ..registry.access import BadUsers
    from ..registry.server import CannotServe, RegistryOptions, serve_registry

    if data_dir is not None and not security:
        from .cluster_table import security_of

        security = security_of(cluster_state.load(data_dir.absolute()))
    options = RegistryOptions(
        bootstrap=bootstrap,
        security=security,
        host=host,
        port=port,
        advertised_host=advertised_host,
        certificate=certificate,
        key=key,
        ca=ca,
        users=users,
        topic=topic,
        group=group,
        session_timeout_ms=session_timeout_ms,
        is_eligible=not read_only,
    )
    run_server(
        lambda announce: serve_registry(options, announce),
        lambda address: (
            f"schema registry: {address}\nschemas are in topic {topic} of "
            f"{bootstrap}; Ctrl-C ends it"
        ),
        attached,
        (CannotServe, BadUsers, ClientError),
    )
