"""PLAIN: passwords stand in the broker's JAAS options as `user_<name>`.

Invariants:
- An unknown name costs as much time as a wrong password, and gets the same answer.

Mirrors `PlainSaslServer` and `PlainServerCallbackHandler`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from ....protocol.sasl.errors import SaslAuthenticationError, SaslError
from ....protocol.sasl.plain import PlainMessage
from ..principal import USER_TYPE, KafkaPrincipal

USER_PREFIX = "user_"


class PlainPasswords:
    """Compares digests of one length, in a time that is independent of the password."""

    __slots__ = ("_digests", "_nobody")

    def __init__(self, options: Mapping[str, str]) -> None:
        self._nobody = _digest("")
        self._digests = {
            name.removeprefix(USER_PREFIX): _digest(password)
            for name, password in options.items()
            if name.startswith(USER_PREFIX)
        }

    def matches(self, username: str, password: str) -> bool:
        known = self._digests.get(username)
        same = hmac.compare_digest(_digest(password), known or self._nobody)
        return same and known is not None


class PlainServer:
    __slots__ = ("_passwords", "_principal")

    blocks = False
    expires_at_ms = None

    def __init__(self, passwords: PlainPasswords) -> None:
        self._passwords = passwords
        self._principal: KafkaPrincipal | None = None

    @property
    def done(self) -> bool:
        return self._principal is not None

    @property
    def principal(self) -> KafkaPrincipal:
        assert self._principal is not None
        return self._principal

    def step(self, token: bytes, now_ms: int) -> bytes:
        if self.done:
            raise SaslError("the PLAIN exchange has ended")
        message = PlainMessage.parse(token)
        if not self._passwords.matches(message.username, message.password):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if message.authorization_id and message.authorization_id != message.username:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self._principal = KafkaPrincipal(USER_TYPE, message.username)
        return b""


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()
