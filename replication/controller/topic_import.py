"""A topic that is created with the id and the leader epochs of a lost one.

The records of a lost topic may be in the remote tier: objects there are named after the topic's id,
and batches have their leader epochs, below which no leader may begin. `pybroker tier import` asks
for such a topic with CreateTopics, in the config IMPORT_CONFIG, which is not stored:

    TOPICID:EPOCH,EPOCH,...     the last leader epoch of each partition; -1: it has no records

Apache Kafka refuses the request, as it has no such config.

Mirrors: nothing of Apache Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.uuids import ZERO_UUID, uuid_from_text, uuid_to_text

IMPORT_CONFIG: Final = "pybroker.tier.import"
NO_RECORDS: Final = -1
MAX_EPOCH: Final = 2**31 - 2  # a leader takes the next one


class TopicImport(NamedTuple):
    topic_id: bytes
    leader_epochs: tuple[int, ...]  # by partition

    def __str__(self) -> str:
        return f"{uuid_to_text(self.topic_id)}:{','.join(map(str, self.leader_epochs))}"


def take_import(configs: Mapping[str, str]) -> tuple[dict[str, str], TopicImport | None]:
    """The configs to store, and what is imported. KafkaError for a text that says nothing."""
    rest = dict(configs)
    text = rest.pop(IMPORT_CONFIG, None)
    if text is None:
        return rest, None
    topic_id, _, epochs = text.partition(":")
    try:
        found = TopicImport(uuid_from_text(topic_id), tuple(map(int, epochs.split(","))))
    except ValueError:
        raise _invalid(f"{text!r} is not TOPICID:EPOCH,EPOCH,...") from None
    if found.topic_id == ZERO_UUID:
        raise _invalid("the id of a topic is not zero")
    if not all(NO_RECORDS <= epoch <= MAX_EPOCH for epoch in found.leader_epochs):
        raise _invalid(f"leader epochs are within {NO_RECORDS} and {MAX_EPOCH}: {epochs}")
    return rest, found


def _invalid(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"{IMPORT_CONFIG}: {reason}")
