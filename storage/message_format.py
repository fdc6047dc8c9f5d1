"""The message format a topic is stored in: `message.format.version` and the configs it depends on.

`message.format.version` counts only while `inter.broker.protocol.version` is below 3.0; from 3.0
on, and by default, everything is stored in v2. A topic's version above the inter-broker protocol's
is ignored too.

Mirrors: LogConfig.MessageFormatVersion, MetadataVersion, TopicConfigHandler.excludedConfigs.
"""

from __future__ import annotations

from ..protocol.errors import ErrorCode, KafkaError
from .config_def import shortened, trim

INTER_BROKER_VERSION = "inter.broker.protocol.version"
BROKER_FORMAT_VERSION = "log.message.format.version"
TOPIC_FORMAT_VERSION = "message.format.version"
NEWEST_RECORD_VERSION = 2

_DEFAULT_INTER_BROKER_VERSION = "3.9-IV0"
DEFAULT_FORMAT_VERSION = "3.0-IV1"
# The number of the last interim version of each release that has any.
_LAST_INTERIM = {
    "0.10.0": 1, "0.10.1": 2, "0.10.2": 0, "0.11.0": 2, "1.0": 0, "1.1": 0, "2.0": 1, "2.1": 2,
    "2.2": 1, "2.3": 1, "2.4": 1, "2.5": 0, "2.6": 0, "2.7": 2, "2.8": 1, "3.0": 1, "3.1": 0,
    "3.2": 0, "3.3": 3, "3.4": 0, "3.5": 2, "3.6": 2, "3.7": 4, "3.8": 0, "3.9": 0,
}  # fmt: skip
_WITHOUT_INTERIM = ("0.8.0", "0.8.1", "0.8.2", "0.9.0")
# Of a release that is still to come: known by their full names only.
_NOT_RELEASED = {"4.0-IV0": (4, 0, 0, 0), "4.0-IV1": (4, 0, 0, 1)}

Version = tuple[int, ...]


def _numbers(release: str, interim: int) -> Version:
    numbers = [int(part) for part in release.split(".")]
    return (*numbers, *[0] * (3 - len(numbers)), interim)


def _all_versions() -> dict[str, Version]:
    versions: dict[str, Version] = dict(_NOT_RELEASED)
    versions.update((release, _numbers(release, 0)) for release in _WITHOUT_INTERIM)
    for release, last in _LAST_INTERIM.items():
        versions[release] = _numbers(release, last)
        for interim in range(last + 1):
            versions[f"{release}-IV{interim}"] = _numbers(release, interim)
    return versions


_VERSIONS = _all_versions()


def find_version(text: str) -> Version | None:
    """A version to compare: its release, and the interim version, which is the last if not named.

    The part after the release and one more dot is ignored: `0.10.0.1` is `0.10.0`, `2.8.1` and
    `2.8.x` are `2.8`. None if there is no such version.
    """
    text = trim(text)
    parts = text.rstrip(".").split(".")
    significant = 3 if text.startswith("0.") else 2
    return _VERSIONS.get(".".join(parts[:significant]) if len(parts) > significant else text)


def parse_version(text: str) -> Version:
    version = find_version(text)
    if version is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Version `{shortened(text)}` is not a valid version"
        )
    return version


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
