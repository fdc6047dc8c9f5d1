"""The registry as a server: its cluster, its part in the election, and the application of `app`.

Mirrors: SchemaRegistryRestApplication.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import trio

from ..client.cluster import Cluster
from ..protocol.api import ApiKey
from ..protocol.apis.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ..web import serve_web
from .access import read_users
from .app import Application, Settings
from .election import Identity
from .elector import SESSION_TIMEOUT_MS
from .instance import GROUP, Instance
from .store import TOPIC

VERSION: Final = "7.9.0"  # of Confluent's, whose API this is
READY_SECONDS: Final = 60.0


class RegistryOptions(NamedTuple):
    """Port 0: any free one. `advertised_host`: for the other instances; None: `host`. `certificate`
    and `key` (PEM): TLS; `ca`: for the certificates of other instances. `users`: see `access`."""

    bootstrap: str
    security: Mapping[str, str]
    host: str = "127.0.0.1"
    port: int = 8081
    advertised_host: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    users: Path | None = None
    topic: str = TOPIC
    group: str = GROUP
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    is_eligible: bool = True


class CannotServe(Exception):
    """The registry cannot be served; the text has the reason."""


async def serve_registry(options: RegistryOptions, announce: Callable[[str], None]) -> None:
    """Serve until cancelled; `announce` gets the address. Raises CannotServe, BadUsers and
    ClientError."""
    users = {} if options.users is None else read_users(options.users)
    forward_tls = _forward_tls(options)
    try:
        (listener,) = await trio.open_tcp_listeners(options.port, host=options.host)
    except OSError as error:
        raise CannotServe(
            f"the registry cannot be served on {options.host}:{options.port}: {error.strerror}; "
            "name another port"
        ) from error
    port = listener.socket.getsockname()[1]
    identity = Identity(
        options.advertised_host or options.host,
        port,
        "http" if options.certificate is None else "https",
        options.is_eligible,
    )
    async with Cluster(options.bootstrap, security=options.security) as cluster:
        instance = Instance(
            cluster,
            identity,
            topic=options.topic,
            group=options.group,
            session_timeout_ms=options.session_timeout_ms,
        )
        facts = await _facts(cluster, options.group)
        async with trio.open_nursery() as nursery:
            with trio.fail_after(READY_SECONDS):
                await nursery.start(instance.run)
            app = Application(instance, Settings(users, forward_tls, facts))
            log = logging.getLogger("pybroker.registry.http")
            await nursery.start(serve_web, app, listener, log, options.certificate, options.key)
            if options.is_eligible:
                await instance.wait_for_primary()
            announce(identity.url)


def _forward_tls(options: RegistryOptions) -> ssl.SSLContext | None:
    """What other instances' certificates are checked with. Raises CannotServe."""
    if options.certificate is None:
        return None
    try:
        check = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        check.load_cert_chain(options.certificate, options.key or options.certificate)
        return ssl.create_default_context(cafile=options.ca or options.certificate)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        raise CannotServe(f"the certificate or its key cannot be used: {reason}") from None


async def _facts(cluster: Cluster, group: str) -> dict[str, object]:
    answer = await cluster.ask_anyone(
        ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(), DescribeClusterResponse
    )
    names = {"kafka-cluster": answer.cluster_id, "schema-registry-cluster": group}
    return {
        "id": {"id": "", "scope": {"path": [], "clusters": names}},
        "version": {"version": VERSION, "commitId": "pybroker"},
    }
