"""The data and the orders of the pages about topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..client.admin.config_types import (
    Alteration,
    ConfigOperation,
    ConfigResource,
    ResourceKind,
)
from ..client.admin.records import EARLIEST, LATEST
from ..client.admin.topics import NewTopic
from ..local.metrics_ports import read_all
from ..protocol.topics import TopicPartition
from .asked import Wrong, number, text
from .cluster_view import ClusterView
from .collector import Collector
from .measured import LOG_END, log_ends
from .shared import together

OFFSETS_SECONDS: Final = 1.0
SIZES_SECONDS: Final = 5.0
CONFIGS_SECONDS: Final = 2.0


async def topic_list(collector: Collector) -> list[dict[str, Any]]:
    """A row a topic: partitions, replicas, records and bytes. Raises ClientError."""
    await collector.first_look()
    view = collector.view
    places = [(name, index) for name, parts in view.topics.items() for index in range(len(parts))]
    ends, starts, sizes = await together(
        lambda: _offsets(collector, "all", places, LATEST),
        lambda: _offsets(collector, "all", places, EARLIEST),
        lambda: _sizes(collector),
    )
    rows = []
    for name, parts in sorted(view.topics.items()):
        mine = [(name, index) for index in range(len(parts))]
        rows.append(
            {
                "name": name,
                "partitions": len(parts),
                "replicas": max((len(one.replicas) for one in parts if one), default=0),
                "behind": sum(len(one.isr) < len(one.replicas) for one in parts if one),
                "records": sum(max(ends.get(p, 0) - starts.get(p, 0), 0) for p in mine),
                "end": sum(max(ends.get(p, 0), 0) for p in mine),
                "bytes": sum(sum(sizes.get(p, {}).values()) for p in mine),
            }
        )
    return rows


async def _sizes(collector: Collector) -> Mapping[TopicPartition, Mapping[int, int]]:
    """The bytes of a partition on each of its brokers."""
    return await collector.shared.get("sizes", SIZES_SECONDS, collector.admin.log_dirs.sizes)


async def topic_details(collector: Collector, name: str) -> dict[str, Any]:
    """Each partition with its offsets, those of its replicas, and sizes. Raises ClientError."""
    parts = await collector.partitions(name)
    places = [(name, index) for index in range(len(parts))]
    ends = await _offsets(collector, name, places, LATEST)
    starts = await _offsets(collector, name, places, EARLIEST)
    stable = await _offsets(collector, name, places, LATEST, committed=True)
    sizes = await _sizes(collector)
    texts = await collector.shared.get(
        "log ends", SIZES_SECONDS, lambda: read_all(collector.metrics_ports(), (LOG_END,))
    )
    logs = {broker_id: log_ends(written, name) for broker_id, written in texts.items()}
    return {
        "name": name,
        "partitions": [
            {
                "ends": {broker: of[index] for broker, of in logs.items() if index in of},
                "partition": index,
                "leader": -1 if one is None else one.leader,
                "epoch": -1 if one is None else one.epoch,
                "replicas": [] if one is None else one.replicas,
                "isr": [] if one is None else one.isr,
                "start": starts.get((name, index)),
                "high_watermark": ends.get((name, index)),
                "last_stable": stable.get((name, index)),
                "bytes": sizes.get((name, index), {}),
            }
            for index, one in enumerate(parts)
        ],
    }


async def topic_configs(collector: Collector, name: str) -> list[dict[str, Any]]:
    """The configs of a topic with the sources of their values. Raises ClientError."""
    resource = ConfigResource(ResourceKind.TOPIC, name)

    async def ask() -> list[dict[str, Any]]:
        found = await collector.admin.configs.describe([resource], documentation=True)
        return [
            {
                "name": one.name,
                "value": one.value,
                "source": one.source.name.lower().replace("_", " "),
                "secret": one.is_sensitive,
                "fixed": one.is_read_only,
                "about": one.documentation,
            }
            for one in found[resource]
        ]

    return await collector.shared.get(f"configs {name}", CONFIGS_SECONDS, ask)


async def _offsets(
    collector: Collector,
    what: str,
    places: list[TopicPartition],
    at: int,
    *,
    committed: bool = False,
) -> dict[TopicPartition, int]:
    """The offsets of the partitions that have a leader."""

    async def ask() -> dict[TopicPartition, int]:
        led = [place for place in places if _is_led(collector.view, place)]
        wanted = dict.fromkeys(led, at)
        found = await collector.admin.records.offsets(wanted, read_committed=committed, wait=False)
        return {place: one.offset for place, one in found.values.items()}

    return await collector.shared.get(f"offsets {what} {at} {committed}", OFFSETS_SECONDS, ask)


def _is_led(view: ClusterView, place: TopicPartition) -> bool:
    """Whether the partition has a leader; false if it was deleted after its page was asked for."""
    topic, index = place
    parts = view.topics.get(topic, ())
    one = parts[index] if index < len(parts) else None
    return one is not None and one.leader >= 0


async def order_topic(collector: Collector, asked: dict[str, Any]) -> dict[str, str]:
    """`{"do": create | delete | partitions | delete-records | config, ...}`.

    Raises Wrong, ClientError.
    """
    name, what = text(asked, "name"), text(asked, "do")
    topics = collector.admin.topics
    if what == "create":
        configs = asked.get("configs") or {}
        if not isinstance(configs, dict):
            raise Wrong("configs is an object")
        new = NewTopic(
            name,
            number(asked, "partitions", -1, bits=31),
            number(asked, "replication_factor", -1, bits=15),
            configs={str(key): str(value) for key, value in configs.items()},
        )
        made = (await topics.create([new])).all()[name]
        return {"done": f"created {name} with {made.partitions} partitions"}
    if what == "delete":
        (await topics.delete([name])).all()
        return {"done": f"deleted {name}"}
    if what == "partitions":
        total = number(asked, "total", bits=31)
        (await topics.add_partitions({name: total})).all()
        return {"done": f"{name} has {total} partitions"}
    if what == "delete-records":
        place = (name, number(asked, "partition", bits=31))
        found = await collector.admin.records.delete_before({place: number(asked, "before")})
        return {"done": f"the first record of {name}-{place[1]} is {found[place]}"}
    if what == "config":
        return await _set_config(collector, name, asked)
    raise Wrong(f"{what!r} is no command for a topic")


async def _set_config(collector: Collector, name: str, asked: dict[str, Any]) -> dict[str, str]:
    key, value = text(asked, "key"), asked.get("value")
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    change = Alteration(key, operation, None if value is None else str(value))
    resource = ConfigResource(ResourceKind.TOPIC, name)
    (await collector.admin.configs.alter({resource: [change]})).all()
    return {"done": f"{key} of {name} is " + ("as by default" if value is None else str(value))}
