"""Where the tables of a cluster are: warehouse, catalogue, names.

A topic's table has the topic's name with `_` for each dot: Kafka refuses topics whose names differ
in nothing but that, so no two topics share a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CATALOG_NAME: Final = "pybroker"  # Java's JDBC catalogue keeps it in each row
CATALOG_FILE: Final = "catalog.db"


@dataclass(slots=True, frozen=True)
class Place:
    warehouse: str  # a directory, or a URL
    namespace: str = "kafka"
    catalog: str | None = None  # a URL; None: SQLite in the warehouse
    registry: str | None = None  # of schemas

    @property
    def is_local(self) -> bool:
        return "://" not in self.warehouse

    @property
    def catalog_properties(self) -> dict[str, str]:
        """For pyiceberg. Raises ValueError."""
        warehouse = f"file://{self.warehouse}" if self.is_local else self.warehouse
        uri = self.catalog
        if uri is None:
            if not self.is_local:
                raise ValueError(
                    "pybroker.table.warehouse is an object store, so pybroker.table.catalog has to "
                    "name the catalogue"
                )
            uri = f"sqlite:///{self.warehouse}/{CATALOG_FILE}"
        kind = "rest" if uri.startswith(("http://", "https://")) else "sql"
        return {"type": kind, "uri": uri, "warehouse": warehouse}

    def table_name(self, topic: str) -> str:
        return topic.replace(".", "_")

    def delta_url(self, topic: str) -> str:
        return f"{self.warehouse.rstrip('/')}/{self.namespace}/{self.table_name(topic)}"

    @classmethod
    def from_json(cls, found: Mapping[str, str | None]) -> Place:
        return cls(
            str(found["warehouse"]),
            found["namespace"] or "kafka",
            found["catalog"],
            found["registry"],
        )
