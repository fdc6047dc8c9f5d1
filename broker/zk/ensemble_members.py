"""The members of the ensemble, as the ensemble names them: new ones are known without a restart.

Job: after each connection read `/zookeeper/config`, with a watch, and give kazoo the addresses that
it has beside those of zookeeper.connect, which stay first. A member whose entry has no client
address is left out, and so is an entry that cannot be read. One server alone has no entries: then
the addresses are those of zookeeper.connect again.

Does what ZooKeeper's clients do with `updateServerList`; Apache Kafka's brokers do not.
"""

import logging
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, WatchedEvent

from ...zookeeper.quorum.ensemble_config import (
    ConfigurationError,
    parse_properties,
    parse_server,
)

logger = logging.getLogger("pybroker.broker.zk.ensemble_members")

CONFIG_PATH = "/zookeeper/config"
EVERY_ADDRESS = ("0.0.0.0", "::", "")


def client_addresses(config: str) -> list[str]:
    """host:port of each member, as far as the content of `/zookeeper/config` has them."""
    found = []
    try:
        properties = parse_properties(config)
    except ConfigurationError:
        return []
    for key, value in properties.items():
        if not key.startswith("server."):
            continue
        try:
            server = parse_server(key, value)
        except ConfigurationError:
            continue
        if server.client_address is not None:
            host, port = server.client_address
            host = server.host if host in EVERY_ADDRESS else host
            found.append(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return found


class EnsembleMembers:
    """All but `read` runs on kazoo's threads."""

    def __init__(self, kazoo: KazooClient, configured: str) -> None:
        self._kazoo = kazoo
        self._configured = configured
        self._known = configured

    def read(self) -> None:
        """Call it when connected. A connection that is lost meanwhile is followed by another."""
        pending = self._kazoo.get_async(CONFIG_PATH, watch=self._changed)
        pending.rawlink(self._answered)

    def _changed(self, event: WatchedEvent) -> None:
        if event.type == EventType.CHANGED:
            self.read()

    def _answered(self, pending: Any) -> None:
        if not pending.successful():
            return
        data, _ = pending.get_nowait()
        named = client_addresses((data or b"").decode(errors="replace"))
        addresses = [*self._configured.split(","), *named]
        known = ",".join(dict.fromkeys(addresses))
        if known != self._known:
            self._known = known
            self._kazoo.set_hosts(known)
            logger.info("ZooKeeper is reached at %s", known)
