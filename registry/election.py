"""The election of the primary, as the group coordinator runs it: what members send and receive.

Members join a group of type `sr` with their address as JSON. The group's leader names as primary
the member that is primary already, else the eligible member with the smallest URL; all receive it.
Mirrors: SchemaRegistryCoordinator, SchemaRegistryProtocol, SchemaRegistryIdentity.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

PROTOCOL_TYPE: Final = "sr"
SUBPROTOCOL: Final = "v0"
VERSION: Final = 1

NO_ERROR: Final = 0
DUPLICATE_URLS: Final = 1


class Identity(NamedTuple):
    """An instance, by the address at which the others reach it."""

    host: str
    port: int
    scheme: str = "http"
    is_eligible: bool = True
    is_primary: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class Assignment(NamedTuple):
    """The answer of the election; `primary` None: no member is eligible."""

    primary: Identity | None
    error: int = NO_ERROR
    member_id: str | None = None


class BadElection(Exception):
    """Bytes of the group that no registry has sent."""


def encode_identity(one: Identity) -> bytes:
    return json.dumps(_identity(one)).encode()


def decode_identity(data: bytes) -> Identity:
    """Raises BadElection."""
    return _read_identity(_object(data))


def encode_assignment(one: Assignment) -> bytes:
    made: dict[str, object] = {"error": one.error}
    if one.primary is not None:
        made |= {"master": one.member_id, "master_identity": _identity(one.primary)}
    return json.dumps({**made, "version": VERSION}).encode()


def decode_assignment(data: bytes) -> Assignment:
    """Raises BadElection."""
    found = _object(data)
    given = found.get("master_identity")
    primary = None if given is None else _read_identity(given)
    error = found.get("error", NO_ERROR)
    if not isinstance(error, int):
        raise BadElection(f"{data!r} is no assignment")
    return Assignment(primary, error, found.get("master"))


def elect(members: Mapping[str, Identity]) -> Assignment:
    """The primary among the members, by their ids in the group."""
    eligible = {name: one for name, one in members.items() if one.is_eligible}
    present = [name for name, one in eligible.items() if one.is_primary]
    if len(present) == 1:
        chosen = present[0]
    else:
        chosen = min(eligible, key=lambda name: eligible[name].url, default="")
    urls = {one.url for one in members.values()}
    error = DUPLICATE_URLS if len(urls) < len(members) else NO_ERROR
    if not chosen:
        return Assignment(None, error)
    return Assignment(eligible[chosen], error, chosen)


def _identity(one: Identity) -> dict[str, Any]:
    return {
        "host": one.host,
        "port": one.port,
        "master_eligibility": one.is_eligible,
        "scheme": one.scheme,
        "version": VERSION,
        "leader": one.is_primary,
    }


def _read_identity(found: Any) -> Identity:
    try:
        return Identity(
            str(found["host"]),
            int(found["port"]),
            str(found.get("scheme") or "http"),
            bool(found["master_eligibility"]),
            bool(found.get("leader", False)),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadElection(f"{found!r} is no instance of a registry") from None


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadElection(f"{data!r} is no JSON object")
    return found
