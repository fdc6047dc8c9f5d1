"""The names of topics at the target, and the origin that such a name tells; pure.

The default policy puts the source's alias before the name; identity leaves names as they are,
except for heartbeats. A topic whose name says that it came from the target is not copied back.
Mirrors: ReplicationPolicy, DefaultReplicationPolicy, IdentityReplicationPolicy,
MirrorSourceConnector.isCycle. Leaves out custom policies: they are classes of Java.
"""

from __future__ import annotations

from typing import Final

HEARTBEATS: Final = "heartbeats"
DEFAULT_SEPARATOR: Final = "."


class ReplicationPolicy:
    """The default policy. With `internal_separator` False own topics use "." instead of the
    separator."""

    def __init__(
        self, separator: str = DEFAULT_SEPARATOR, *, internal_separator: bool = True
    ) -> None:
        self.separator = separator
        self._internal = separator if internal_separator else DEFAULT_SEPARATOR

    def remote_topic(self, source: str, topic: str) -> str:
        return f"{source}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """The alias of the cluster that the topic was copied from, by its name; None if it has
        none."""
        # As in Java's split: the part behind the last separator counts only if it is not empty.
        source, found, rest = topic.partition(self.separator)
        return source if found and rest.replace(self.separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        """The topic's name at that cluster."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """The topic's name at the cluster where it was first written."""
        upstream = self.upstream_topic(topic)
        return topic if upstream is None or upstream == topic else self.original_topic(upstream)

    def offset_syncs_topic(self, alias: str) -> str:
        return f"mm2-offset-syncs{self._internal}{alias}{self._internal}internal"

    def checkpoints_topic(self, alias: str) -> str:
        return f"{alias}{self._internal}checkpoints{self._internal}internal"

    def is_heartbeats(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS

    def is_internal(self, topic: str) -> bool:
        """Whether the topic is Kafka's own, Connect's own, or a mirror's."""
        ends = (f"{self._internal}internal", "-internal", ".internal")
        return topic.startswith(("__", ".")) or topic.endswith(ends)

    def is_cycle(self, topic: str, target: str) -> bool:
        """Whether the topic has come from the target."""
        source = self.topic_source(topic)
        if source is None or source == target:
            return source is not None
        upstream = self.upstream_topic(topic)
        return upstream is not None and upstream != topic and self.is_cycle(upstream, target)


class IdentityPolicy(ReplicationPolicy):
    """Names stay unchanged; a topic is assumed to come from `source`. Two clusters that mirror each
    other with this policy copy records in circles: the names do not show their origin."""

    def __init__(
        self,
        source: str | None,
        separator: str = DEFAULT_SEPARATOR,
        *,
        internal_separator: bool = True,
    ) -> None:
        super().__init__(separator, internal_separator=internal_separator)
        self._source = source

    def remote_topic(self, source: str, topic: str) -> str:
        return super().remote_topic(source, topic) if topic.endswith(HEARTBEATS) else topic

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if topic.endswith(HEARTBEATS) else self._source

    def upstream_topic(self, topic: str) -> str | None:
        return super().upstream_topic(topic) if topic.endswith(HEARTBEATS) else topic
