"""The topics of the cluster as the group machine sees them.

The broker passes an object of `TopicImage`; the machine reads it and never keeps a `Topic` for
longer than a call. Mirrors CoordinatorMetadataImage.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Topic(NamedTuple):
    """A topic with the facts that groups depend on."""

    name: str
    topic_id: bytes
    partition_count: int
    # Of each partition, the racks of its replicas that have one, with repetitions.
    racks: tuple[tuple[str, ...], ...]


class TopicImage(Protocol):
    """The topics that there are now."""

    @property
    def version(self) -> int:
        """Grows with each change."""

    def topic(self, name: str) -> Topic | None: ...

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, topic_id: bytes) -> int | None: ...

    def topic_names(self) -> Iterable[str]: ...


class NoTopics:
    """A cluster without topics."""

    version = 0

    def topic(self, name: str) -> Topic | None:
        return None

    def topic_id(self, name: str) -> bytes | None:
        return None

    def topic_name(self, topic_id: bytes) -> str | None:
        return None

    def partition_count(self, topic_id: bytes) -> int | None:
        return None

    def topic_names(self) -> Iterable[str]:
        return ()
