"""GSSAPI: Kerberos tickets (RFC 4752), through the package `gssapi` and the system's MIT Kerberos.

Invariants:
- No security layer is offered, and none is taken: frames stay as they are.
- A step may read the key table and the replay cache: it blocks.

Mirrors `GssKrb5Server` of Java and `SaslServerCallbackHandler`, which ignores the authorization
id. Kerberos itself reads the system's krb5.conf (KRB5_CONFIG).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NamedTuple

from ....protocol.sasl.errors import SaslError
from ..principal import USER_TYPE, KafkaPrincipal
from .kerberos_names import NameRules

GSSAPI = "GSSAPI"
_NO_LAYER = b"\x01\x00\x00\x00"  # the only one offered, and the size of no message


class KerberosConfig(NamedTuple):
    """The broker's principal, its key table, and the rules for the names of clients."""

    principal: str
    key_table: str
    rules: tuple[str, ...]


class _Stage(Enum):
    """The stages, in this order, or FAILED after any."""

    CONTEXT = auto()
    OFFER = auto()
    CHOICE = auto()
    DONE = auto()
    FAILED = auto()


class KerberosCredentials:
    """The broker's credentials; ValueError if there are none."""

    __slots__ = ("names", "own")

    def __init__(self, config: KerberosConfig) -> None:
        import gssapi

        kind, mechanism = gssapi.NameType.kerberos_principal, gssapi.MechType.kerberos
        try:
            realm = str(gssapi.Name("x", kind).canonicalize(mechanism)).rpartition("@")[2]
            self.own: Any = gssapi.Credentials(
                name=gssapi.Name(config.principal, kind),
                usage="accept",
                mechs=[mechanism],
                store={"keytab": f"FILE:{config.key_table}"},
            )
        except gssapi.raw.misc.GSSError as error:
            raise ValueError(
                f"there is no key of {config.principal} in {config.key_table}: {error}"
            ) from None
        self.names = NameRules(realm, config.rules)


class GssapiServer:
    __slots__ = ("_context", "_credentials", "_name", "_stage")

    blocks = True
    expires_at_ms = None

    def __init__(self, credentials: KerberosCredentials) -> None:
        self._credentials = credentials
        self._context: Any = None
        self._stage = _Stage.CONTEXT
        self._name = ""

    @property
    def done(self) -> bool:
        return self._stage is _Stage.DONE

    @property
    def principal(self) -> KafkaPrincipal:
        assert self.done
        return KafkaPrincipal(USER_TYPE, self._name)

    def step(self, token: bytes, now_ms: int) -> bytes:
        import gssapi

        stage, self._stage = self._stage, _Stage.FAILED
        try:
            if stage is _Stage.CONTEXT:
                return self._establish(token)
            if stage is _Stage.OFFER and not token:
                return self._offer()
            if stage is _Stage.CHOICE:
                return self._choose(token)
        except gssapi.raw.misc.GSSError as error:
            raise SaslError(str(error)) from None
        raise SaslError("unexpected token in a GSSAPI exchange")

    def _establish(self, token: bytes) -> bytes:
        import gssapi

        if self._context is None:
            self._context = gssapi.SecurityContext(creds=self._credentials.own, usage="accept")
        answer: bytes = self._context.step(token) or b""
        if not self._context.complete:
            self._stage = _Stage.CONTEXT
            return answer
        if not answer:
            return self._offer()
        self._stage = _Stage.OFFER
        return answer

    def _offer(self) -> bytes:
        self._stage = _Stage.CHOICE
        wrapped: bytes = self._context.wrap(_NO_LAYER, False).message
        return wrapped

    def _choose(self, token: bytes) -> bytes:
        chosen = self._context.unwrap(token).message
        if len(chosen) < 4 or chosen[0] != _NO_LAYER[0]:
            raise SaslError("a security layer was chosen that was not offered")
        principal = str(self._context.initiator_name)
        name = self._credentials.names.short_name(principal)
        if not name:
            raise SaslError(f"No rules apply to {principal}")
        self._name = name
        self._stage = _Stage.DONE
        return b""
