"""Which message format a topic is stored in: `message.format.version` and what it depends on.

It counts only while `inter.broker.protocol.version` is below 3.0; from there on, and by default,
everything is stored in v2. A topic's version above the inter-broker protocol's is ignored too.

Mirrors: LogConfig.MessageFormatVersion, MetadataVersion, TopicConfigHandler.excludedConfigs.
"""

from __future__ import annotations

from protocol.errors import ErrorCode, KafkaError

INTER_BROKER_VERSION = "inter.broker.protocol.version"
BROKER_FORMAT_VERSION = "log.message.format.version"
TOPIC_FORMAT_VERSION = "message.format.version"
NEWEST_RECORD_VERSION = 2

_DEFAULT_INTER_BROKER_VERSION = "3.9-IV0"
DEFAULT_FORMAT_VERSION = "3.0-IV1"
# The number of the last interim version of each release that has more than one.
_LAST_INTERIM = {
    "0.10.0": 1, "0.10.1": 2, "0.11.0": 2, "2.0": 1, "2.1": 2, "2.2": 1, "2.3": 1, "2.4": 1,
    "2.7": 2, "2.8": 1, "3.0": 1, "3.3": 3, "3.5": 2, "3.6": 2, "3.7": 4,
}  # fmt: skip
_WITHOUT_INTERIM = ("0.8.0", "0.8.1", "0.8.2", "0.9.0")

Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    """A version to compare: its release, and the interim version, which is the last if not named.

    `0.10.0.1` is `0.10.0`, `2.8.1` is `2.8`.
    """
    release, _, interim = text.partition("-IV")
    parts = release.split(".")
    parts = parts[: 3 if parts[0] == "0" else 2]
    try:
        numbers = [int(part) for part in parts]
        last = int(interim) if interim else _LAST_INTERIM.get(".".join(parts), 0)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Version `{text}` is not a valid version"
        ) from None
    return (*numbers, *[0] * (3 - len(numbers)), last)


_IGNORED_FROM = parse_version("3.0-IV1")
_FIRST_OF_V1 = parse_version("0.10.0-IV0")
_FIRST_OF_V2 = parse_version("0.11.0-IV0")
_FIRST_OF_ZSTD = parse_version("2.1-IV0")


def full_name(text: str) -> str:
    """The version with its interim number, as Kafka shows it."""
    major, minor, patch, interim = parse_version(text)
    release = f"{major}.{minor}.{patch}" if major == 0 else f"{major}.{minor}"
    return release if release in _WITHOUT_INTERIM else f"{release}-IV{interim}"


def record_version_of(text: str) -> int:
    """The magic that a version of Kafka writes."""
    version = parse_version(text)
    return 0 if version < _FIRST_OF_V1 else 1 if version < _FIRST_OF_V2 else NEWEST_RECORD_VERSION


def formats_are_ignored(inter_broker_version: str | None) -> bool:
    return parse_version(inter_broker_version or _DEFAULT_INTER_BROKER_VERSION) >= _IGNORED_FROM


def knows_zstd(inter_broker_version: str | None) -> bool:
    return parse_version(inter_broker_version or _DEFAULT_INTER_BROKER_VERSION) >= _FIRST_OF_ZSTD


def broker_format_version(inter_broker_version: str | None, text: str | None) -> str:
    """`log.message.format.version` as it counts."""
    if text is None or formats_are_ignored(inter_broker_version):
        return DEFAULT_FORMAT_VERSION
    return full_name(text)


def stored_record_version(
    inter_broker_version: str | None, broker_text: str | None, topic_text: str | None
) -> int:
    """The magic in which a topic is stored."""
    if inter_broker_version is None or formats_are_ignored(inter_broker_version):
        return NEWEST_RECORD_VERSION
    text = topic_text
    if text is None or parse_version(text) > parse_version(inter_broker_version):
        text = broker_format_version(inter_broker_version, broker_text)
    return record_version_of(text)


def ignored_topic_version(inter_broker_version: str | None, text: str) -> str | None:
    """Why a topic's `message.format.version` does not count, if that may surprise."""
    inter_broker = inter_broker_version or _DEFAULT_INTER_BROKER_VERSION
    if formats_are_ignored(inter_broker):
        if record_version_of(text) < NEWEST_RECORD_VERSION:
            return f"the inter-broker protocol version `{inter_broker}` is 3.0 or higher"
    elif parse_version(text) > parse_version(inter_broker):
        return f"it is higher than the inter-broker protocol version `{inter_broker}`"
    return None
