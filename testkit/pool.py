"""The clusters of a test session, shared by the tests that want one like it.

At most MAX_CLUSTERS run; the one that has not been used for longest makes room. What a test has
made on a cluster is removed after it. A cluster that a test has left harmed is mended; if one of
both fails, it is stopped: the next test gets a new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from ..local.cluster_state import ClusterError
from .cluster import KafkaCluster
from .options import config_texts

if TYPE_CHECKING:
    import pytest

    from .cleaning import Snapshot

MAX_CLUSTERS = 3


def default_options(config: pytest.Config) -> dict[str, Any]:
    """The options of the session: the command line's, else the ini file's."""
    brokers = config.getoption("--kafka-brokers") or int(config.getini("kafka_brokers"))
    pairs = [*config.getini("kafka_config"), *config.getoption("--kafka-config")]
    secure = config.getoption("--kafka-secure") or config.getini("kafka_secure")
    keep = [*config.getini("kafka_keep"), *config.getoption("--kafka-keep")]
    return {
        "brokers": brokers,
        "config": dict(map(_pair, pairs)),
        "secure": bool(secure),
        "keep": keep,
    }


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise ClusterError(f"kafka_config: {text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


def _names(keep: object) -> Collection[str]:
    """The names in a marker's `keep`, which may be one, or True for all."""
    if isinstance(keep, bool):
        return ()
    if isinstance(keep, str):
        return (keep,)
    if isinstance(keep, (list, tuple, set, frozenset)) and all(isinstance(k, str) for k in keep):
        return list(keep)
    raise ClusterError(f"keep is True, a name or a list of names, not {keep!r}")


class ClusterPool:
    """`take` a cluster for a test, and `give_back` that cluster."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self._defaults = defaults
        self._clusters: dict[str, KafkaCluster] = {}  # by their options; the last used last
        self._own: list[KafkaCluster] = []  # of one test only
        self._before: Snapshot | None = None  # the present test; None: nothing is removed
        self._keep: list[str] = []

    def take(self, wanted: Mapping[str, Any]) -> KafkaCluster:
        """A running cluster of the session's options, and of these before them."""
        options = {**self._defaults, **wanted}
        is_fresh = bool(options.pop("fresh", False))
        options.pop("keep", None)
        keep = wanted.get("keep", ())
        self._keep = [*self._defaults.get("keep", ()), *_names(keep)]
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
        self._before = None if is_fresh or keep is True else cluster.snapshot()
        return cluster

    def give_back(self, cluster: KafkaCluster) -> None:
        """After a test: its faults are undone, and what it has made goes."""
        if cluster in self._own:
            self._own.remove(cluster)
            cluster.stop()
            return
        with contextlib.suppress(ClusterError):
            was_whole = cluster.is_whole
            cluster.heal()
            if cluster.is_whole:
                if not was_whole:
                    cluster.wait_for_zookeepers()
                    cluster.wait_for_brokers()
                if self._before is not None:
                    cluster.clean(self._before, keep=self._keep)
                return
        cluster.stop()
        self._clusters = {key: one for key, one in self._clusters.items() if one is not cluster}

    def close(self) -> None:
        for cluster in [*self._clusters.values(), *self._own]:
            cluster.stop()
        self._clusters.clear()
