"""GSSAPI: logging in with a ticket of Kerberos (RFC 4752), through the package `gssapi` and the
system's MIT Kerberos with its krb5.conf (KRB5_CONFIG).

Invariants: no security layer is chosen: frames stay unchanged. With a key table, tickets are
fetched automatically and renewed before they expire, in memory only; without one the ticket cache
is that of `kinit`. Each step may wait for the KDC.

Mirrors `KerberosLogin` and Java's `Krb5LoginModule` and `GssKrb5Client`. Leaves out password
prompts, and `kinit` as a process (`sasl.kerberos.kinit.cmd` and related settings).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple

from ...protocol.sasl.errors import SaslError
from ..errors import SettingsError
from .login import Login

GSSAPI = "GSSAPI"
SERVICE_NAME = "sasl.kerberos.service.name"
_NO_LAYER = 1  # a bit of the offer
_CHOICE = b"\x01\x00\x00\x00"  # no layer, with a maximal message length of 0


class Tickets(NamedTuple):
    """The source of tickets: a key table, otherwise a cache; None is the default cache."""

    service: str
    principal: str | None
    key_table: str | None
    cache: str | None


class _Stage(Enum):
    """The stages in order; each may lead to FAILED."""

    CONTEXT = auto()
    OFFER = auto()
    ANSWER = auto()
    DONE = auto()
    FAILED = auto()


class GssapiClient:
    """One exchange with the broker on `host`."""

    __slots__ = ("_context", "_host", "_name", "_stage", "_tickets")

    def __init__(self, tickets: Tickets, host: str) -> None:
        self._tickets = tickets
        self._host = host
        self._context: Any = None
        self._name = ""
        self._stage = _Stage.CONTEXT

    @property
    def done(self) -> bool:
        return self._stage is _Stage.DONE

    def step(self, token: bytes) -> bytes:
        import gssapi

        stage, self._stage = self._stage, _Stage.FAILED
        try:
            if stage is _Stage.CONTEXT:
                return self._establish(token)
            if stage is _Stage.OFFER:
                return self._choose(token)
        except gssapi.raw.misc.GSSError as error:
            raise SaslError(f"{error} (service {self._tickets.service}@{self._host})") from None
        if stage is _Stage.ANSWER and not token:
            self._stage = _Stage.DONE
            return b""
        raise SaslError("unexpected token in a GSSAPI exchange")

    def _establish(self, token: bytes) -> bytes:
        import gssapi

        if self._context is None:
            credentials = _credentials(self._tickets)
            self._name = str(credentials.name)
            self._context = gssapi.SecurityContext(
                name=gssapi.Name(
                    f"{self._tickets.service}@{self._host}", gssapi.NameType.hostbased_service
                ),
                creds=credentials,
                mech=gssapi.MechType.kerberos,
                usage="initiate",
                flags=int(gssapi.RequirementFlag.mutual_authentication)
                | int(gssapi.RequirementFlag.integrity),
            )
        said: bytes = self._context.step(token or None) or b""
        self._stage = _Stage.OFFER if self._context.complete else _Stage.CONTEXT
        return said

    def _choose(self, token: bytes) -> bytes:
        offered = self._context.unwrap(token).message
        if len(offered) != len(_CHOICE) or not offered[0] & _NO_LAYER:
            raise SaslError("the broker wants a security layer; Kafka has none")
        self._stage = _Stage.ANSWER
        wrapped: bytes = self._context.wrap(_CHOICE + self._name.encode(), False).message
        return wrapped


def _credentials(tickets: Tickets) -> Any:
    import gssapi

    name = None
    if tickets.principal is not None:
        name = gssapi.Name(tickets.principal, gssapi.NameType.kerberos_principal)
    store: dict[bytes | str, bytes | str] = {}
    if tickets.key_table is not None:
        store = {
            "client_keytab": f"FILE:{tickets.key_table}",
            "ccache": f"MEMORY:pybroker-{os.getpid()}-{tickets.principal}",
        }
    elif tickets.cache is not None:
        store = {"ccache": f"FILE:{tickets.cache}"}
    return gssapi.Credentials(
        name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store or None
    )


def kerberos_login(options: Mapping[str, str], service: str | None, jaas: str) -> Login:
    """The login for a login module's options; `jaas` is their setting. Raises SettingsError."""
    own_service = options.get("serviceName")
    if service and own_service and service != own_service:
        raise SettingsError(
            f"{jaas}: its serviceName and {SERVICE_NAME} differ: remove one of them"
        )
    service = service or own_service
    if not service:
        raise SettingsError(
            f"{SERVICE_NAME} is not set: it is the name of the brokers' principals before the /, "
            "usually kafka"
        )
    principal, key_table = options.get("principal"), options.get("keyTab")
    has_key = options.get("useKeyTab", "").lower() == "true"
    if has_key and not (principal and key_table):
        raise SettingsError(f"{jaas}: with useKeyTab=true it needs a keyTab and a principal")
    if not has_key and options.get("useTicketCache", "").lower() != "true":
        raise SettingsError(
            f"{jaas}: it needs useTicketCache=true after kinit, or useKeyTab=true with a keyTab "
            "and a principal"
        )
    if importlib.util.find_spec("gssapi") is None:
        raise SettingsError(
            f"{jaas}: GSSAPI needs one more package: pip install 'pybroker-kafka[gssapi]'"
        )
    cache = options.get("ticketCache")
    tickets = Tickets(
        service,
        principal,
        key_table.removeprefix("file:") if has_key and key_table else None,
        None if cache is None else cache.removeprefix("FILE:").removeprefix("file:"),
    )
    for_host = partial(GssapiClient, tickets)
    name = principal or "whoever kinit has got a ticket for"
    return Login(GSSAPI, name, partial(for_host, ""), is_slow=True, for_host=for_host)
