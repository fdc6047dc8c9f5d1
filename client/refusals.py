"""Messages for refusals: the missing ACL, its principal, and the command that adds it.

A broker answers with a code only, which names the type of the resource; the caller knows the rest.
"""

from __future__ import annotations

import shlex
from typing import Final, NamedTuple

from ..protocol.errors import ErrorCode
from .errors import Refused

# The resource's option of `pybroker acls`, which is also the word for it.
_REFUSED_ON: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional-id",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "delegation-token",
}
_UNKNOWN_PRINCIPAL = "PRINCIPAL"

ADVICE: Final = {
    ErrorCode.SECURITY_DISABLED: "the brokers have no authorizer: set authorizer.class.name, or "
    "start a secured cluster with: pybroker start --secure",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key in all brokers",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "log in with a password, or with a certificate "
    "that the broker asks for; a token's holder may make no other",
}


class NotAllowed(Refused):
    """An ACL is missing, or denies the operation."""


class Asked(NamedTuple):
    """The principal, the operation as in ACLs, and the name of the resource."""

    who: str | None
    operation: str
    name: str = ""

    def refusal(self, code: ErrorCode) -> str | None:
        """The message in one line, or None if `code` is no refusal by ACLs."""
        resource = _REFUSED_ON.get(code)
        if resource is None:
            return None
        who = self.who or "this client"
        pattern = f"--{resource}"
        thing = "the cluster"
        if resource != "cluster":
            thing = f"{resource.replace('-', ' ')} {self.name!r}"
            pattern += f" {shlex.quote(self.name)}"
        allowed = shlex.quote(self.who or _UNKNOWN_PRINCIPAL)
        return (
            f"{who} is not allowed {self.operation.upper()} on {thing}: an ACL is missing, or one "
            "denies it; who administers the cluster can add it with: pybroker acls add "
            f"--allow {allowed} --operation {self.operation} {pattern}"
        )

    def check(self, code: int, message: str | None, what: str) -> None:
        """Raises Refused unless the code is 0."""
        if not code:
            return
        error = ErrorCode(code)
        refusal = self.refusal(error)
        if refusal is not None:
            raise NotAllowed(f"{what}: {refusal}", error)
        text = message or error.description
        advice = f"; {ADVICE[error]}" if error in ADVICE else ""
        raise Refused(f"{what}: {text} ({error.name}){advice}", error)
