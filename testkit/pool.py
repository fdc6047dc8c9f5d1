"""The clusters of a test session, shared by the tests that want one like it.

At most MAX_CLUSTERS run; the one that has not been used for longest makes room. A cluster that a
test has left harmed is mended, or if that fails, stopped: the next test gets a new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..local.cluster_state import ClusterError
from .cluster import KafkaCluster
from .options import config_texts

if TYPE_CHECKING:
    import pytest

MAX_CLUSTERS = 3


def default_options(config: pytest.Config) -> dict[str, Any]:
    """The options of the session: the command line's, else the ini file's."""
    brokers = config.getoption("--kafka-brokers") or int(config.getini("kafka_brokers"))
    pairs = [*config.getini("kafka_config"), *config.getoption("--kafka-config")]
    secure = config.getoption("--kafka-secure") or config.getini("kafka_secure")
    return {"brokers": brokers, "config": dict(map(_pair, pairs)), "secure": bool(secure)}


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ClusterError(f"kafka_config: {text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


class ClusterPool:
    """`take` a cluster for a test, and `give_back` that cluster."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self._defaults = defaults
        self._clusters: dict[str, KafkaCluster] = {}  # by their options; the last used last
        self._own: list[KafkaCluster] = []  # of one test only
        self._topics_before = 0

    def take(self, wanted: Mapping[str, Any]) -> KafkaCluster:
        """A running cluster of the session's options, and of these before them."""
        options = {**self._defaults, **wanted}
        is_fresh = bool(options.pop("fresh", False))
        own = config_texts(wanted.get("config", {}))
        options["config"] = {**self._defaults.get("config", {}), **own}
        key = repr(sorted(options.items(), key=lambda item: item[0]))
        cluster = None if is_fresh else self._clusters.pop(key, None)
        if cluster is not None and not cluster.is_whole:
            cluster.stop()
            cluster = None
        if cluster is None:
            cluster = KafkaCluster(**options).start()
        if is_fresh:
            self._own.append(cluster)
        else:
            self._clusters[key] = cluster
            while len(self._clusters) > MAX_CLUSTERS:
                self._clusters.pop(next(iter(self._clusters))).stop()
        self._topics_before = len(cluster.topics)
        return cluster

    def give_back(self, cluster: KafkaCluster) -> None:
        """After a test: its topics go, and its faults are undone."""
        if cluster in self._own:
            self._own.remove(cluster)
            cluster.stop()
            return
        with contextlib.suppress(ClusterError):
            was_whole = cluster.is_whole
            cluster.heal()
            if cluster.is_whole:
                if not was_whole:
                    cluster.wait_for_brokers()
                made = cluster.topics[self._topics_before :]
                del cluster.topics[self._topics_before :]
                cluster.delete_topics(*made)
                return
        cluster.stop()
        self._clusters = {key: one for key, one in self._clusters.items() if one is not cluster}

    def close(self) -> None:
        for cluster in [*self._clusters.values(), *self._own]:
            cluster.stop()
        self._clusters.clear()
