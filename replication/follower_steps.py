"""The steps of a fetcher: a request to send, or a time to wait; and its configuration.

Mirrors the values that ReplicaFetcherThread reads from KafkaConfig. Beyond Kafka: unless the user
has set `replica.fetch.max.bytes`, a few partitions share all the room of a response, since an
exchange costs the same for 100 KB and for megabytes.
"""

from dataclasses import dataclass

from ..protocol.schema import Message
from ..protocol.topics import TopicPartition
from .follower import FollowerPartition
from .follower_session import SessionRequest
from .inter_broker import NEWEST, InterBrokerProtocol

NEWEST_FETCH_BY_NAME = 12
FETCH_BY_ID = 13
FETCH_WITH_REPLICA_STATE = 15

# The most bytes of a partition appended at once, without a turn for other tasks.
MAX_SHARE_BYTES = 4 * 1024 * 1024

# A throttled partition over its quota is looked at again after this time.
THROTTLED_WAIT_MS = 100


@dataclass(slots=True, frozen=True)
class FetcherConfig:
    """The broker configs of fetchers, with Kafka's defaults."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    response_max_bytes: int = 10_485_760
    partition_max_bytes: int = 1_048_576
    shares_room: bool = True
    backoff_ms: int = 1_000
    # Of a partition's first failure in a row: the usual one is that LeaderAndIsr reached us before
    # it reached the leader, which is a matter of milliseconds.
    first_backoff_ms: int = 10
    # Fetch v12+ finds out by itself where logs diverge; a leader of before 2.7 must be asked.
    truncates_on_fetch: bool = True
    protocol: InterBrokerProtocol = NEWEST

    def room_for_each_of(self, partitions: int) -> int:
        """The number of bytes to ask for in each of so many partitions."""
        if not self.shares_room:
            return self.partition_max_bytes
        share = min(self.response_max_bytes // partitions, MAX_SHARE_BYTES)
        return max(self.partition_max_bytes, share)


@dataclass(slots=True, eq=False)
class Exchange:
    """A request to send, and the states that ask, unless it is a fetch for the whole session."""

    request: Message
    version: int
    states: dict[TopicPartition, FollowerPartition]
    session: SessionRequest | None = None
    is_long_poll: bool = False


@dataclass(slots=True, frozen=True)
class Wait:
    """Nothing to ask before `until_ms` (None: before something changes)."""

    until_ms: int | None
