"""Names that many rooms share: a partition of a topic, and the topics that brokers keep for
themselves.

Mirrors org.apache.kafka.common.TopicPartition and common.internals.Topic.
"""

from typing import Final

# Topic and partition number; a plain tuple, since it is the key of most look-ups.
TopicPartition = tuple[str, int]

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"
# Clients neither write to them nor add them to transactions; 3.9 has a third one, for KRaft.
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
REMOTE_LOG_METADATA_TOPIC: Final = "__remote_log_metadata"
# Topics without a remote tier, whatever their configs are (KIP-405).
NEVER_TIERED: Final = INTERNAL_TOPICS | {REMOTE_LOG_METADATA_TOPIC, "__cluster_metadata"}
