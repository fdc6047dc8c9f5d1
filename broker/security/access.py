"""The permissions of the client of one connection, cached until an ACL changes.

Job: `Access` asks the authorizer for one principal at one host and keeps the answers, so that the
hot path is a look-up by the topic's name. `DenialLog` logs each denial with the command that would
allow the operation.

Invariants: an answer from before the authorizer's last change is never returned (`version`); the
cache and the logged lines are bounded.

Mirrors kafka.server.AuthHelper and the `kafka.authorizer.logger` of AclAuthorizer: allowed
operations at DEBUG, denied ones at INFO; but each of them once per connection and change of ACLs.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Mapping
from typing import Final

from ...protocol.acls import CLUSTER_NAME, WILDCARD, AclOperation, ResourceType
from .authorizer import Authorizer
from .principal import KafkaPrincipal

logger = logging.getLogger("pybroker.authorizer")

MAX_REMEMBERED = 500  # names of one connection
MAX_LINES = 100  # of denials in LINES_SECONDS
LINES_SECONDS: Final = 10
LONGEST_NAME = 255  # the longest remembered, and logged in full; no topic has a longer one

_READ, _WRITE, _CREATE, _DELETE = (
    AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE,
)  # fmt: skip
_WRITE_TOPIC: Final = (_WRITE << 4) + ResourceType.TOPIC
_ALTER, _DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
_CONFIGS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
# The operations on each kind of resource, sent to clients as bits (SEMANTICS 9).
OPERATIONS_ON: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, *_CONFIGS),
    ResourceType.GROUP: (_READ, _DELETE, _DESCRIBE, *_CONFIGS),
    ResourceType.CLUSTER: (
        _CREATE, _ALTER, _DESCRIBE, AclOperation.CLUSTER_ACTION, *_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip


def bitmap(operations: tuple[AclOperation, ...]) -> int:
    return sum(1 << operation for operation in operations)


class DenialLog:
    """Logs denials, at most MAX_LINES in LINES_SECONDS."""

    __slots__ = ("_clock", "_count", "_started_at", "_unlogged")

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` in seconds."""
        self._clock = clock
        self._started_at = clock()
        self._count = 0
        self._unlogged = 0

    def denied(
        self, access: Access, operation: AclOperation, kind: ResourceType, name: str, api: str
    ) -> None:
        now = self._clock()
        if now - self._started_at >= LINES_SECONDS:
            self._started_at = now
            self._count = 0
            if self._unlogged:
                logger.info("%d more denials were not logged", self._unlogged)
                self._unlogged = 0
        self._count += 1
        if self._count > MAX_LINES:
            self._unlogged += 1
            return
        level, hint = logging.INFO, ""
        if operation is AclOperation.CLUSTER_ACTION:
            # Most likely the cluster does not work.
            level, hint = logging.WARNING, ". Brokers need it: they are to be super.users"
        principal, what = _word(str(access.principal)), _resource(kind, name)
        logger.log(
            level,
            "Denied: %s may not %s %s (%s from %s); unless another ACL denies it, it may after: "
            "pybroker acls add --allow %s --operation %s %s%s",
            principal, operation.name, what, api, access.host,
            principal, operation.name.lower(), _option(kind, name), hint,
        )  # fmt: skip


class Access:
    """The authorizer, asked for one principal at one host."""

    __slots__ = (
        "_authorizer", "_denials", "host", "known", "principal", "size", "version", "writable",
    )  # fmt: skip

    def __init__(
        self, authorizer: Authorizer, principal: KafkaPrincipal, host: str, denials: DenialLog
    ) -> None:
        self._authorizer = authorizer
        self._denials = denials
        self.version = authorizer.version  # of the cached answers
        self.principal = principal
        self.host = host
        # By operation and kind as one number, then by the name; and the part of it that every
        # produce asks.
        self.writable: dict[str, bool] = {}
        self.known: dict[int, dict[str, bool]] = {_WRITE_TOPIC: self.writable}
        self.size = 0

    @property
    def latest_version(self) -> int:
        """The version of the authorizer: an earlier answer may differ now."""
        return self._authorizer.version

    def permits(
        self,
        operation: AclOperation,
        kind: ResourceType,
        name: str,
        api: str = "",
        *,
        is_logged: bool = True,
    ) -> bool:
        """Whether the client may do this; `api` is for the log. `is_logged` is False where a
        further check may still permit it.
        """
        if self._authorizer.version != self.version:
            self._forget()
        names = self.known.get((operation << 4) + kind)
        if names is None:
            names = self.known[(operation << 4) + kind] = {}
        answer = names.get(name)
        if answer is None:
            answer = self._authorizer.allows(self.principal, self.host, operation, kind, name)
            if self.size >= MAX_REMEMBERED:
                self._forget()
            elif len(name) <= LONGEST_NAME:
                self.size += 1
                names[name] = answer
            self._log(answer, operation, kind, name, api, is_logged)
        return answer

    def permits_any(self, operation: AclOperation, kind: ResourceType, api: str) -> bool:
        """Whether the client may do this to any resource of that type (KIP-679)."""
        answer = self._authorizer.allows_by_type(self.principal, self.host, operation, kind)
        self._log(answer, operation, kind, "", api, True)
        return answer

    def operations_on(self, kind: ResourceType, name: str) -> int:
        """Bits of all that it may do to this resource."""
        return bitmap(
            tuple(
                operation
                for operation in OPERATIONS_ON[kind]
                if self.permits(operation, kind, name, is_logged=False)
            )
        )

    def _forget(self) -> None:
        self.version = self._authorizer.version
        self.writable = {}
        self.known = {_WRITE_TOPIC: self.writable}
        self.size = 0

    def _log(
        self, answer: bool, operation: AclOperation, kind: ResourceType, name: str, api: str,
        is_logged: bool,
    ) -> None:  # fmt: skip
        if answer:
            logger.debug(
                "Allowed: %s from %s, %s on %s with %s",
                self.principal, self.host, operation.name, kind.name, api,
            )  # fmt: skip
        elif is_logged:
            self._denials.denied(self, operation, kind, name, api)


def _resource(kind: ResourceType, name: str) -> str:
    if kind is ResourceType.CLUSTER:
        return f"CLUSTER {CLUSTER_NAME}"
    return f"{kind.name} {_word(name)}" if name else f"any {kind.name}"


def _option(kind: ResourceType, name: str) -> str:
    """The resource's option of the command that adds an ACL."""
    if kind is ResourceType.CLUSTER:
        return "--cluster"
    return f"--{kind.name.lower().replace('_', '-')} {_word(name or WILDCARD)}"


def _word(name: str) -> str:
    """A name as a shell takes it, in one line and shortened."""
    shown = ascii(name[:LONGEST_NAME])
    if len(name) > LONGEST_NAME or shown[1:-1] != name:
        return shown
    return shlex.quote(name)
