"""Alterations of configs turned into all configs of a resource, for brokers before 2.3.

These brokers support `AlterConfigs` only, which replaces all configs of a resource, so these are
read first. A concurrent change of the same resource is overwritten, as by the tools of that time.
Mirrors: ConfigCommand.alterConfig of Kafka 1.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import Unsupported
from .config_types import Alteration, ConfigEntry, ConfigOperation, ConfigResource, ConfigSource

# The sources of a resource's own values. Brokers before 1.1 name no sources.
_OWN = frozenset(
    {
        ConfigSource.TOPIC,
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.UNKNOWN,
    }
)


def replaced(
    resource: ConfigResource, entries: Iterable[ConfigEntry], changes: Sequence[Alteration]
) -> dict[str, str]:
    """All configs of a resource after the changes. Raises Unsupported if a secret value cannot be
    read."""
    known = {entry.name: entry for entry in entries}
    own: dict[str, str] = {}
    for entry in known.values():
        is_default = entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
        if entry.source not in _OWN or (is_default and resource.name) or entry.is_read_only:
            continue
        if entry.value is not None:
            own[entry.name] = entry.value
        elif entry.is_sensitive and all(one.name != entry.name for one in changes):
            raise Unsupported(
                f"{resource} has a secret value of {entry.name}, which brokers before 2.3 would "
                "forget with this change: give its value, too"
            )
    for name, operation, value in changes:
        if operation is ConfigOperation.DELETE:
            own.pop(name, None)
        elif operation is ConfigOperation.SET:
            own[name] = value or ""
        else:
            before = own.get(name) or (known[name].value if name in known else None) or ""
            items, named = _items(before), _items(value or "")
            if operation is ConfigOperation.APPEND:
                items += [item for item in named if item not in items]
            else:
                items = [item for item in items if item not in named]
            own[name] = ",".join(items)
    return own


def _items(value: str) -> list[str]:
    return [item for item in value.split(",") if item]
