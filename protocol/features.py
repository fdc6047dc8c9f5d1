"""The features that a cluster can finalize to give its clients the protocols of Kafka 4.

Job: the names and levels of the features that a broker supports, and the rule by which finalized
levels decide about versions of requests. The levels of a cluster are in ZooKeeper (/feature); with
none finalized a broker serves what Apache Kafka 3.9 serves, byte for byte.

Invariant: a finalized level is at least 1; level 0 means that the feature is not finalized.
METADATA has Kafka's levels of `metadata.version`, and changes no metadata here: it is one of the
features that bring the newer versions of requests, so that tools can finalize a whole release.

Mirrors: Feature, GroupVersion, ShareVersion, StreamsVersion, TransactionVersion and MetadataVersion
of Kafka 4.3 (KIP-584, KIP-1022). Leaves out kraft.version and eligible.leader.replicas.version,
which only a cluster without ZooKeeper has.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple


class Feature(StrEnum):
    METADATA = "metadata.version"
    GROUP = "group.version"
    TRANSACTION = "transaction.version"
    SHARE = "share.version"
    STREAMS = "streams.version"


Levels = Mapping[str, int]  # of finalized features, by name

NOTHING_FINALIZED: Final[Levels] = MappingProxyType({})

# The least and the highest level that a broker supports.
SUPPORTED: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        Feature.METADATA: (22, 30),  # 4.0-IV0 to 4.3-IV0
        Feature.GROUP: (0, 1),
        Feature.TRANSACTION: (0, 2),
        Feature.SHARE: (0, 1),
        Feature.STREAMS: (0, 1),
    }
)


# The levels that a new cluster of a release finalizes, as Kafka's kafka-storage does, as far as
# they are supported.
_RELEASE_4_0: Final = {Feature.METADATA: 25, Feature.GROUP: 1, Feature.TRANSACTION: 2}
_RELEASE_4_2: Final = {**_RELEASE_4_0, Feature.METADATA: 29, Feature.SHARE: 1, Feature.STREAMS: 1}
RELEASES: Final[Mapping[str, Levels]] = MappingProxyType(
    {
        release: {name: level for name, level in levels.items() if name in SUPPORTED}
        for release, levels in (
            ("3.9", NOTHING_FINALIZED),
            ("4.0", _RELEASE_4_0),
            ("4.1", {**_RELEASE_4_0, Feature.METADATA: 27}),
            ("4.2", _RELEASE_4_2),
            ("4.3", {**_RELEASE_4_2, Feature.METADATA: 30}),
        )
    }
)
NEWEST_RELEASE: Final = "4.3"

NOTHING_SUPPORTED: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({})


class Later(NamedTuple):
    """The first version of an API that Kafka 3.9 does not have.

    It is served once `feature` is finalized, or without one, once any feature is.
    """

    version: int
    feature: Feature | None = None


def is_served(later: Later, levels: Levels) -> bool:
    """Whether the finalized levels bring the version, and those behind it."""
    if later.feature is None:
        return any(levels.get(feature, 0) for feature in Feature)
    return levels.get(later.feature, 0) > 0
