"""The offsets that a table has: from the next record of each partition on, the topic goes on.

They stand in the table as text, with the id of the topic: a topic that was deleted and created
again has another id, and begins at its first record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

OFFSETS: Final = "pybroker.offsets"
TOPIC_ID: Final = "pybroker.topic-id"

Offsets = dict[int, int]


def to_properties(topic_id: str, offsets: Mapping[int, int]) -> dict[str, str]:
    ordered = {str(partition): offsets[partition] for partition in sorted(offsets)}
    return {TOPIC_ID: topic_id, OFFSETS: json.dumps(ordered, separators=(",", ":"))}


def from_properties(topic_id: str, found: Mapping[str, str | None]) -> Offsets | None:
    """The offsets in these properties; {} if they are of another topic, None if there are none."""
    text = found.get(OFFSETS)
    if text is None:
        return None
    if found.get(TOPIC_ID) != topic_id:
        return {}
    return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
