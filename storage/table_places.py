"""Where the tables of a cluster are, as the broker's keys have it; checked before it starts. Pure.

- `pybroker.table.warehouse`: a directory, or the URL of an object store.
- `pybroker.table.catalog`: the URL of Iceberg's catalogue, and `pybroker.table.catalog.*`: what it
  needs besides, named as pyiceberg does: `credential`, `token`, `scope`, `warehouse` ...
- `pybroker.table.store.*`: settings of the object store, named as those of tiered storage
  (`rsm.config.*`). Without credentials those of the environment are used.

Kafka has nothing like it. Leaves out: settings of other stores than S3, which
`pybroker.table.catalog.*` can have for Iceberg, and the environment for Delta.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from .table_configs import CATALOG, WAREHOUSE

CATALOG_PREFIX: Final = f"{CATALOG}."
STORE_PREFIX: Final = "pybroker.table.store."
S3: Final = "s3://"
URI: Final = "uri"  # of the catalogue, in place of pybroker.table.catalog: it may have a password
STORE_SETTINGS: Final = (
    "access_key_id",
    "client.allow_http",
    "endpoint",
    "region",
    "secret_access_key",
    "session_token",
    "virtual_hosted_style_request",
)
ALLOW_HTTP: Final = "client.allow_http"
_PAIR: Final = frozenset(("access_key_id", "secret_access_key"))
_KINDS: Final = ("http", "https", "sqlite", "postgresql", "mysql", "mariadb")
_SET_BY_US: Final = ("name", "type")


def settings_under(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    """The keys with this prefix, without it."""
    return {
        name.removeprefix(prefix): text for name, text in values.items() if name.startswith(prefix)
    }


def is_place_key(name: str) -> bool:
    """Whether the key is one of settings that others name."""
    return name.startswith((CATALOG_PREFIX, STORE_PREFIX))


def check_table_place(values: Mapping[str, str]) -> None:
    """Raises ValueError. The values of keys that may be secret are in no error."""
    settings = settings_under(CATALOG_PREFIX, values)
    catalog = values.get(CATALOG)
    for name in _SET_BY_US:
        if name in settings:
            raise ValueError(f"{CATALOG_PREFIX}{name}: {CATALOG} decides it; remove the key")
    if catalog and settings.get(URI):
        raise ValueError(f"{CATALOG} and {CATALOG_PREFIX}{URI} are the same thing: give one")
    if catalog:
        _check_catalog(CATALOG, catalog)
        if urlsplit(catalog).password:
            raise ValueError(
                f"{CATALOG} has a password, which everyone who may describe configs would see: "
                f"give the whole URL as {CATALOG_PREFIX}{URI}, which no client is shown"
            )
    elif settings.get(URI):
        _check_catalog(CATALOG_PREFIX + URI, settings[URI])
    elif settings:
        raise ValueError(
            f"{CATALOG_PREFIX}{min(settings)} is of no use without {CATALOG}, the catalogue's URL"
        )
    _check_store(values.get(WAREHOUSE) or "", settings_under(STORE_PREFIX, values))


def _check_catalog(key: str, url: str) -> None:
    kind, separator, _ = url.partition("://")
    if not separator or kind.partition("+")[0] not in _KINDS:
        raise ValueError(
            f"{key} is no URL of a catalogue: http://HOST:PORT or https:// for REST, or a "
            f"database: {', '.join(f'{one}://' for one in _KINDS[2:])}"
        )


def _check_store(warehouse: str, store: Mapping[str, str]) -> None:
    if not store:
        return
    if not warehouse.startswith(S3):
        raise ValueError(
            f"{STORE_PREFIX}{min(store)}: such settings are for S3, and {WAREHOUSE} is not "
            f"{S3}BUCKET/PREFIX"
        )
    for name in sorted(store):
        if name not in STORE_SETTINGS:
            raise ValueError(
                f"{STORE_PREFIX}{name} is not known; there are {', '.join(STORE_SETTINGS)}"
            )
    given = _PAIR & store.keys()
    if len(given) == 1:
        (missing,) = _PAIR - given
        raise ValueError(f"{STORE_PREFIX}{missing} is missing: {min(given)} is set")
    endpoint = store.get("endpoint", "")
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise ValueError(f"{STORE_PREFIX}endpoint is no URL: http://HOST:PORT or https://HOST")
    if endpoint.startswith("http://") and store.get(ALLOW_HTTP, "").lower() != "true":
        raise ValueError(
            f"{STORE_PREFIX}endpoint is without TLS: set {STORE_PREFIX}{ALLOW_HTTP}=true if it is "
            "meant to be"
        )
