"""A broker with a listener of each kind, authorization and quotas, and what is thrown at it.

Job: `secured_bystander` starts it with a good client that comes by SASL_SSL, as `good`; `Secured`
has its ports, contexts and clients, and counts what it has logged.
Invariants: whoever attacks uses the passwords given here and no others; `alice` may do everything.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.abuse.beside import Bystander, assert_unharmed, bystander
from tests.abuse.storms import SLACK_MB, resident_mb, settled_mb
from tests.support.certificates import Authority, pem
from tests.support.processes import free_port
from tests.support.sasl_client import log_in
from tests.support.wire import WireClient

KAFKA = "org.apache.kafka.common.security"
LISTENERS = ("PLAIN", "TLS", "MUTUAL", "USERS", "SECURE")
PASSWORDS = {"good": "good-secret", "alice": "alice-secret", "bob": "bob-secret"}
DELAY_MS = 100  # of refusals; Kafka's default
CONNECT_SECONDS = 120.0


class Secured(NamedTuple):
    good: Bystander
    authority: Authority
    directory: Path

    @property
    def pid(self) -> int:
        return self.good.broker.pid

    def port(self, listener: str) -> int:
        return self.good.broker.port + LISTENERS.index(listener)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=pem(self.authority.certificate))

    def raw(self, listener: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port(listener)), CONNECT_SECONDS)

    def client(self, listener: str = "SECURE", user: str | None = "alice") -> WireClient:
        """Logged in, where logins are and `user` is not None."""
        tls = None if listener in ("PLAIN", "USERS") else self.context()
        client = WireClient(f"127.0.0.1:{self.port(listener)}", tls=tls)
        if user is not None and listener in ("USERS", "SECURE"):
            assert log_in(client, "PLAIN", user, PASSWORDS[user]).error_code == 0
        return client

    def hello(self) -> bytes:
        """What a client says first."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        return outgoing.read()

    def lines(self) -> int:
        return self.good.broker.log_text.count("\n")

    def unharmed(
        self, name: str, abuse: Callable[[], int | None], slack_mb: float = SLACK_MB
    ) -> None:
        """The good client goes on, no traceback, memory goes back; of each connection that `abuse`
        says it has made no more than one line is logged."""
        before, lines = resident_mb(self.pid), self.lines()
        made = 0

        def counted() -> None:
            nonlocal made
            made += abuse() or 0

        assert_unharmed(self.good, name, counted)
        assert self.good.broker.is_running
        assert self.good.complaints() == []
        assert settled_mb(self.pid, before + slack_mb) <= before + slack_mb
        assert self.lines() - lines <= made + EXPECTED_LINES, self.good.broker.log_text[-2000:]


EXPECTED_LINES = 10  # that have nothing to do with what is done to it


@contextlib.contextmanager
def secured_bystander(directory: Path, rate: float = 100) -> Iterator[Secured]:
    authority = Authority()
    server = authority.server().write_pem(directory / "server.pem")
    trust = authority.write_pem(directory / "authority.pem")
    first = free_port(len(LISTENERS))
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    config = {
        "listeners": ",".join(f"{n}://127.0.0.1:{first + i}" for i, n in enumerate(LISTENERS)),
        "listener.security.protocol.map": (
            "PLAIN:PLAINTEXT,TLS:SSL,MUTUAL:SSL,USERS:SASL_PLAINTEXT,SECURE:SASL_SSL"
        ),
        "inter.broker.listener.name": "PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "connection.failed.authentication.delay.ms": str(DELAY_MS),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:good;User:alice",
        "delegation.token.secret.key": "the secret of tokens",
        "listener.name.users.connections.max.reauth.ms": "60000",
    }
    for name in ("users", "secure"):
        prefix = f"listener.name.{name}"
        config[f"{prefix}.plain.sasl.jaas.config"] = (
            f"{KAFKA}.plain.PlainLoginModule required {users};"
        )
        config[f"{prefix}.oauthbearer.sasl.jaas.config"] = (
            f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required;"
        )
    comes_by = {
        "bootstrap.servers": f"127.0.0.1:{first + LISTENERS.index('SECURE')}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "good",
        "sasl.password": PASSWORDS["good"],
        "ssl.ca.location": str(trust),
    }
    with bystander(directory, config, rate, port=first, comes_by=comes_by) as good:
        yield Secured(good, authority, directory)


def for_a_while(seconds: float, action: Callable[[], int | None]) -> Callable[[], int]:
    """`action` again and again; how many connections it has made."""

    def repeat() -> int:
        made, end = 0, time.monotonic() + seconds
        while True:
            made += action() or 0
            if time.monotonic() >= end:
                return made

    return repeat
