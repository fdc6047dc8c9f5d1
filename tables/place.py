"""Where the tables of a cluster are: warehouse, catalogue, names, and what is needed to reach them.

A topic's table has the topic's name with `_` for each dot: Kafka refuses topics whose names differ
in nothing but that, so no two topics share a table.

Invariant: the values of `settings` and `store` are in no repr, and `without_secrets` takes the
secret ones out of texts of the formats' libraries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..storage.remote.secret_configs import HIDDEN, without_secrets
from ..storage.table_configs import CATALOG
from ..storage.table_places import (
    CATALOG_PREFIX,
    STORE_PREFIX,
    URI,
    settings_under,
)
from . import stores

CATALOG_NAME: Final = "pybroker"  # Java's JDBC catalogue keeps it in each row
CATALOG_FILE: Final = "catalog.db"
_HEADER: Final = "header."  # of requests to a REST catalogue


@dataclass(slots=True, frozen=True)
class Place:
    warehouse: str  # a directory, or a URL
    namespace: str = "kafka"
    catalog: str | None = None  # a URL; None: SQLite in the warehouse
    registry: str | None = None  # of schemas
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)  # of the catalogue
    store: Mapping[str, str] = field(default_factory=dict, repr=False)  # as in `table_places`

    @property
    def is_local(self) -> bool:
        return "://" not in self.warehouse

    @property
    def catalog_url(self) -> str | None:
        """None: SQLite in the warehouse."""
        return self.settings.get(URI) or self.catalog

    @property
    def is_rest(self) -> bool:
        return (self.catalog_url or "").startswith(("http://", "https://"))

    @property
    def catalog_properties(self) -> dict[str, str]:
        """For pyiceberg. Raises ValueError."""
        warehouse = f"file://{self.warehouse}" if self.is_local else self.warehouse
        uri = self.catalog_url
        if uri is None:
            if not self.is_local:
                raise ValueError(
                    "pybroker.table.warehouse is an object store, so pybroker.table.catalog has to "
                    "name the catalogue"
                )
            uri = f"sqlite:///{self.warehouse}/{CATALOG_FILE}"
        return {
            **stores.for_pyiceberg(self.store),
            "warehouse": warehouse,
            **self.settings,
            "type": "rest" if self.is_rest else "sql",
            "uri": uri,
        }

    @property
    def delta_options(self) -> dict[str, str] | None:
        """For deltalake."""
        return stores.for_deltalake(self.store) or None

    def table_name(self, topic: str) -> str:
        return topic.replace(".", "_")

    def delta_url(self, topic: str) -> str:
        return f"{self.warehouse.rstrip('/')}/{self.namespace}/{self.table_name(topic)}"

    def without_secrets(self, text: str) -> str:
        text = without_secrets(without_secrets(text, self.settings), self.store)
        values = [one for name, one in self.settings.items() if name.startswith(_HEADER)]
        values.append(self.settings.get("credential", "").rpartition(":")[2])  # of ID:SECRET
        password = urlsplit(self.settings.get(URI, "")).password
        values += [password, unquote(password)] if password else []
        for value in values:
            text = text.replace(value, HIDDEN) if value else text
        return text

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Place:
        return cls(
            str(found["warehouse"]),
            found["namespace"] or "kafka",
            found["catalog"],
            found["registry"],
            found["settings"],
            found["store"],
        )

    @classmethod
    def reached(cls, warehouse: str, namespace: str, configs: Mapping[str, str]) -> Place:
        """A reader's: of a broker's configs those that say how to reach the tables."""
        return cls(
            warehouse,
            namespace,
            configs.get(CATALOG),
            settings=settings_under(CATALOG_PREFIX, configs),
            store=settings_under(STORE_PREFIX, configs),
        )
