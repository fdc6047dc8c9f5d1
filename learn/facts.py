"""The facts that answer the questions of the chapters: each is computed from the living cluster.

A question on a page names a fact and its words: `<!-- ask: leader learn-words 0 -->`. `FACTS` has
the functions by these names; their parameters are the words. A fact is what the cluster says at the
moment of the answer: nothing is stored, so an answer that was right may be wrong a minute later.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ..client.admin.config_types import ConfigResource, ResourceKind
from ..client.admin.records import EARLIEST, LATEST
from ..client.cluster import CoordinatorKind
from .answers import Answer, Number, Numbers, Word
from .living import Living, NoAnswer

Fact = Callable[..., Awaitable[Answer]]


# Records


async def records(living: Living, topic: str) -> Number:
    """The number of records that a consumer reads, of all partitions."""
    return Number(len(await living.records(topic)))


async def committed_records(living: Living, topic: str) -> Number:
    """The same under read_committed."""
    return Number(len(await living.records(topic, committed=True)))


async def records_in(living: Living, topic: str, partition: str) -> Number:
    """The number of records in one partition."""
    found = await living.records(topic)
    return Number(sum(one.partition == int(partition) for one in found))


async def partition_of_key(living: Living, topic: str, key: str) -> Number:
    """The partition of the newest record with a key."""
    found = [one for one in await living.records(topic) if one.key == key.encode()]
    if not found:
        raise NoAnswer(f"no record of {topic} has the key {key}")
    return Number(max(found, key=lambda one: one.timestamp).partition)


async def value_bytes(living: Living, topic: str) -> Number:
    """The size of the value of the newest record."""
    found = await living.records(topic)
    if not found:
        raise NoAnswer(f"{topic} has no records")
    newest = max(found, key=lambda one: (one.timestamp, one.offset))
    return Number(len(newest.value or b""))


# Offsets


async def _offset(living: Living, topic: str, partition: str, where: int, **how: bool) -> int:
    place = (topic, int(partition))
    return (await living.admin.records.offsets({place: where}, **how))[place].offset


async def log_start(living: Living, topic: str, partition: str) -> Number:
    """The first offset that can be read."""
    return Number(await _offset(living, topic, partition, EARLIEST))


async def high_watermark(living: Living, topic: str, partition: str) -> Number:
    """The offset up to which consumers may read."""
    return Number(await _offset(living, topic, partition, LATEST))


async def last_stable(living: Living, topic: str, partition: str) -> Number:
    """The offset up to which consumers under read_committed may read."""
    return Number(await _offset(living, topic, partition, LATEST, read_committed=True))


async def log_end(living: Living, topic: str, partition: str, broker: str) -> Number:
    """The end of the log (LEO) of one replica."""
    found = await living.inside(int(broker), "replica", topic=topic, partition=partition)
    return Number(found["log_end_offset"])


async def committed(living: Living, group: str, topic: str, partition: str) -> Number:
    """The offset that a group has committed."""
    place = (topic, int(partition))
    found = (await living.admin.group_offsets.list(group, [place])).values.get(place)
    if found is None:
        raise NoAnswer(f"{group} has committed nothing of {topic}-{partition}")
    return Number(found.offset)


async def lag(living: Living, group: str, topic: str, partition: str) -> Number:
    """The records between the committed offset and the end."""
    end = await high_watermark(living, topic, partition)
    return Number(end.value - (await committed(living, group, topic, partition)).value)


# Replicas


async def leader(living: Living, topic: str, partition: str) -> Number:
    """The id of the broker that leads a partition."""
    return Number((await living.partition(topic, int(partition))).leader_id)


async def leader_epoch(living: Living, topic: str, partition: str) -> Number:
    """The number of times that a partition has had another leader."""
    return Number((await living.partition(topic, int(partition))).leader_epoch)


async def isr(living: Living, topic: str, partition: str) -> Numbers:
    """The ids of the in-sync replicas."""
    return Numbers(frozenset((await living.partition(topic, int(partition))).isr_nodes))


async def offline(living: Living, topic: str, partition: str) -> Numbers:
    """The ids of the replicas whose brokers are not there."""
    return Numbers(frozenset((await living.partition(topic, int(partition))).offline_replicas))


# Groups


async def group_state(living: Living, group: str) -> Word:
    """Empty, PreparingRebalance, CompletingRebalance, Stable or Dead."""
    return Word((await living.admin.groups.describe([group]))[group].state)


async def members(living: Living, group: str) -> Number:
    """The number of members."""
    return Number(len((await living.admin.groups.describe([group]))[group].members))


async def largest_share(living: Living, group: str) -> Number:
    """The largest number of partitions that one member has."""
    found = (await living.admin.groups.describe([group]))[group].members
    return Number(max((len(one.assignment) for one in found), default=0))


async def coordinator(living: Living, group: str) -> Number:
    """The broker that coordinates a group."""
    living.cluster.forget_coordinator(CoordinatorKind.GROUP, group)
    listed = (await living.admin.groups.list()).values
    for found in listed.values():
        for one in found:
            if one.group_id == group:
                return Number(one.coordinator)
    raise NoAnswer(f"no broker has a group {group} now")


# Transactions


async def transaction_state(living: Living, transactional_id: str) -> Word:
    """Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort."""
    found = await living.admin.transactions.describe([transactional_id])
    return Word(found[transactional_id].state)


async def producer_epoch(living: Living, transactional_id: str) -> Number:
    """The epoch of the producer that has a transactional id."""
    found = await living.admin.transactions.describe([transactional_id])
    return Number(found[transactional_id].producer_epoch)


# Files


async def _files(living: Living, topic: str, partition: str, broker: str) -> Any:
    return await living.inside(int(broker), "files", topic=topic, partition=partition)


async def segments(living: Living, topic: str, partition: str, broker: str) -> Number:
    """The number of segments of a log."""
    return Number((await _files(living, topic, partition, broker))["segment_count"])


async def segment_of(
    living: Living, topic: str, partition: str, broker: str, offset: str
) -> Number:
    """The first offset of the segment with an offset, which is its name."""
    found = (await _files(living, topic, partition, broker))["segments"]
    below = [one["base_offset"] for one in found if one["base_offset"] <= int(offset)]
    if not below:
        raise NoAnswer(f"offset {offset} is not in the log any more")
    return Number(max(below))


async def index_entry(
    living: Living, topic: str, partition: str, broker: str, offset: str
) -> Number:
    """The offset of the index entry from which the log is read for an offset; without one the first
    offset of the segment.
    """
    steps = await living.inside(
        int(broker), "look-up", topic=topic, partition=partition, offset=offset
    )
    for step in steps:
        if step["title"] == "The offset index":
            if step["chosen"] is None:
                return await segment_of(living, topic, partition, broker, offset)
            return Number(step["rows"][step["chosen"]][1])
    raise NoAnswer(f"offset {offset} is not in the log any more")


# The inside of a broker


async def broker_config(living: Living, broker: str, key: str) -> Number:
    """A number of a broker's configuration."""
    return await _config(living, ResourceKind.BROKER, broker, key)


async def topic_config(living: Living, topic: str, key: str) -> Number:
    """A number of a topic's configuration."""
    return await _config(living, ResourceKind.TOPIC, topic, key)


async def _config(living: Living, kind: ResourceKind, name: str, key: str) -> Number:
    resource = ConfigResource(kind, name)
    entries = (await living.admin.configs.describe([resource], names=[key]))[resource]
    value = next((one.value for one in entries if one.name == key), None)
    if value is None:
        raise NoAnswer(f"{resource} has no {key}")
    return Number(int(value))


async def waiting_fetches(living: Living, broker: str) -> Number:
    """The fetches of consumers, not of followers, that wait in a broker's purgatory."""
    kinds = await living.inside(int(broker), "waiting")
    oldest = next(one["oldest"] for one in kinds if one["kind"] == "Fetch")
    return Number(sum(not one["for"].startswith("follower") for one in oldest))


# ZooKeeper's registries


async def registered(living: Living) -> Numbers:
    """The ids of the brokers that are registered."""
    found = await living.znode("/brokers/ids")
    return Numbers(frozenset(map(int, found["children"])))


async def controller(living: Living) -> Number:
    """The broker that is the controller."""
    return Number(int(json.loads((await living.znode("/controller"))["data"])["brokerid"]))


async def controller_epoch(living: Living) -> Number:
    """The number of controllers that the cluster has had."""
    return Number(int((await living.znode("/controller_epoch"))["data"]))


async def znode_version(living: Living, path: str) -> Number:
    """The number of writes to a znode since it was made."""
    return Number((await living.znode(path))["version"])


FACTS: Final[Mapping[str, Fact]] = {
    "records": records,
    "committed-records": committed_records,
    "records-in": records_in,
    "partition-of-key": partition_of_key,
    "value-bytes": value_bytes,
    "log-start": log_start,
    "high-watermark": high_watermark,
    "last-stable": last_stable,
    "log-end": log_end,
    "committed": committed,
    "lag": lag,
    "leader": leader,
    "leader-epoch": leader_epoch,
    "isr": isr,
    "offline": offline,
    "group-state": group_state,
    "members": members,
    "largest-share": largest_share,
    "coordinator": coordinator,
    "transaction-state": transaction_state,
    "producer-epoch": producer_epoch,
    "segments": segments,
    "segment-of": segment_of,
    "index-entry": index_entry,
    "broker-config": broker_config,
    "topic-config": topic_config,
    "waiting-fetches": waiting_fetches,
    "registered": registered,
    "controller": controller,
    "controller-epoch": controller_epoch,
    "znode-version": znode_version,
}


async def answer(living: Living, fact: tuple[str, ...]) -> Answer:
    """The answer of a question's fact. Raises NoAnswer, ClientError."""
    name, *words = fact
    return await FACTS[name](living, *words)
