"""The entities that have quotas, their names and their paths in ZooKeeper.

An `Entity` is a user and a client id. A name is as clients send it, None is the default of all
without a quota of their own, and "" leaves that half open: ("", "app") is the client id alone,
("alice", "") the user alone. In ZooKeeper, and so in change notifications, names are escaped.

Mirrors `Sanitizer`, ConfigEntityZNode and the paths of QuotaConfigHandler.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from ...protocol import sanitized_names

Entity: TypeAlias = tuple[str | None, str | None]

DEFAULT_NAME: Final = "<default>"
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
CLIENT_KEYS: Final = frozenset(
    {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
)


class IpEntity(NamedTuple):
    """An address, or a host that has one; None for the default."""

    name: str | None


def sanitize(name: str | None) -> str:
    """A name as it stands in a path; None is the default."""
    return DEFAULT_NAME if name is None else sanitized_names.sanitize(name)


def may_be_stored(name: str) -> bool:
    """Whether a path can end with this name: not with `.` and `..`, which are not escaped."""
    return name not in ("", ".", "..")


def desanitize(name: str) -> str | None:
    return None if name == DEFAULT_NAME else sanitized_names.desanitize(name)


def path_of(entity: Entity) -> str:
    """The path below /config of a user, a client id, or both."""
    user, client = entity
    if user == "":
        return f"clients/{sanitize(client)}"
    if client == "":
        return f"users/{sanitize(user)}"
    return f"users/{sanitize(user)}/clients/{sanitize(client)}"


def ip_path(name: str | None) -> str:
    return f"ips/{sanitize(name)}"


def entity_at(path: str) -> Entity | IpEntity | None:
    """The entity of a path below /config; None for an entity without quotas."""
    match path.split("/"):
        case ["clients", client] if client:
            return ("", desanitize(client))
        case ["users", user] if user:
            return (desanitize(user), "")
        case ["users", user, "clients", client] if user and client:
            return (desanitize(user), desanitize(client))
        case ["ips", ip] if ip:
            return IpEntity(desanitize(ip))
        case _:
            return None
