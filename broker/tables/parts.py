"""The layer of tables in a broker: imported and built if `pybroker.table.warehouse` is set.

The process gets the keys `pybroker.table.catalog.*` and `pybroker.table.store.*` on its standard
input, so no secret is in its command line.

Clients of the process begin at this broker's own inter-broker listener. Keys with the prefix
`pybroker.table.client.` are their settings, as Kafka's clients have them; `bootstrap.servers` among
them replaces that listener.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ...storage.log_directory import TABLE_DROPS_FILE
from ...storage.table_configs import CATALOG, CLIENT_PREFIX, WAREHOUSE
from ...storage.table_places import CATALOG_PREFIX, STORE_PREFIX, settings_under
from ..cluster.parts import Ground
from ..config import KafkaConfig
from ..replicas.parts import Replicas
from .drops import TableDrops
from .runtime import TableRuntime


def build_tables(
    ground: Ground, replicas: Replicas, address_of: Callable[[str], str]
) -> TableRuntime:
    """`address_of` a listener of this broker is asked for when it is bound."""
    config = ground.config
    tables = TableRuntime(
        replicas.manager,
        ground.topic_configs.overrides,
        lambda: _work(config, address_of),
        TableDrops(os.path.join(config.log_dirs[0], TABLE_DROPS_FILE)),
    )
    replicas.manager.hosted.note_topic_deletion = tables.note_deletion
    ground.topic_configs.on_change.append(tables.on_config)
    tables.register_gauges(ground.metrics)
    return tables


def _work(config: KafkaConfig, address_of: Callable[[str], str]) -> dict[str, Any]:
    """A message to the process, without topics."""
    listener = config.inter_broker_listener
    protocols = {one.name: one.security_protocol for one in config.listeners}
    explicit = config.explicit()
    client = settings_under(CLIENT_PREFIX, explicit)
    bootstrap = client.pop("bootstrap.servers", None) or address_of(listener)
    client = {"security.protocol": protocols[listener], **client}
    warehouse = config.get_string(WAREHOUSE)
    return {
        "bootstrap": bootstrap,
        "security": None if client == {"security.protocol": "PLAINTEXT"} else client,
        "place": {
            "warehouse": warehouse if "://" in warehouse else os.path.abspath(warehouse),
            "namespace": config.get_string("pybroker.table.namespace"),
            "catalog": config.get_optional_string(CATALOG),
            "registry": config.get_optional_string("pybroker.table.registry"),
            "settings": settings_under(CATALOG_PREFIX, explicit),
            "store": settings_under(STORE_PREFIX, explicit),
        },
    }
