"""What a tiered topic has in the remote tier, for its page: ranges, what is under way, costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..client.admin.records import EARLIEST_LOCAL, all_at
from ..local.tier_costs import (
    Prices,
    TierPart,
    by_partition,
    dollars_text,
    month_dollars,
    total,
    write_dollars,
)
from ..local.tiered_topics import read_segments
from ..storage.remote.segments import RemoteLogSegmentMetadata
from .collector import Collector
from .topics import topic_configs

if TYPE_CHECKING:
    from ..client.consumer.consumer import Consumer

SEGMENTS_SECONDS: Final = 10.0
PRICES: Final = Prices()


async def topic_tier(collector: Collector, name: str) -> dict[str, Any]:
    """`partitions` is empty for a topic without a tier. Raises ClientError."""
    configs = {one["name"]: one["value"] for one in await topic_configs(collector, name)}
    if configs.get("remote.storage.enable") != "true":
        return {"partitions": []}

    async def ask() -> list[RemoteLogSegmentMetadata]:
        return await read_segments(collector.admin, lambda: _consumer(collector))

    segments = await collector.shared.get("tier", SEGMENTS_SECONDS, ask)
    topic = (await collector.admin.client.metadata([name])).topics[0]
    mine = (one for one in segments if one.topic_id_partition.topic == name)
    tier = by_partition(mine, topic.topic_id)
    numbers = sorted(one.partition_index for one in topic.partitions)
    places = [(name, number) for number in numbers]
    local = await collector.admin.records.offsets(all_at(places, EARLIEST_LOCAL), wait=False)
    whole = total(tier.values())
    return {
        "partitions": [
            {
                "partition": number,
                "local_first": local.values[name, number].offset
                if (name, number) in local.values
                else None,
                **tier.get(number, TierPart())._asdict(),
            }
            for number in numbers
        ],
        "a_month": dollars_text(month_dollars(whole, PRICES)),
        "once": dollars_text(write_dollars(whole, PRICES)),
        "writes": whole.writes,
        "prices": PRICES._asdict(),
    }


def _consumer(collector: Collector) -> Consumer:
    from ..client.consumer.consumer import Consumer

    return Consumer(collector.cluster, auto_offset_reset="earliest", allow_auto_create_topics=False)
