"""The broker keys of a local cluster with tiered storage (`pybroker start --tier`)."""

from __future__ import annotations

from collections.abc import Mapping

from ..storage.remote.loading import manager_at

# Few, as a laptop's cluster has few partitions; Kafka's default is 50.
METADATA_PARTITIONS = "5"


def tier_keys(place: str, replicas: int, client: Mapping[str, str]) -> dict[str, str]:
    """`place` is a directory, or the URL of an object store. `client` has the security settings of
    the clients of the metadata topic."""
    class_name, configs = manager_at(place)
    metadata = {
        "topic.num.partitions": METADATA_PARTITIONS,
        "topic.replication.factor": str(replicas),
        **{f"common.client.{name}": value for name, value in client.items()},
    }
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": class_name,
        **{f"rsm.config.{name}": text for name, text in configs.items()},
        **{f"rlmm.config.remote.log.metadata.{name}": text for name, text in metadata.items()},
    }
