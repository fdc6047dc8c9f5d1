"""The wanted cluster or command of a test, in a form that can be sent to the fork server.

Invariant: imports nothing of the broker, since the pytest plugin reads options of tests that may
never start a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..protocol.features import NEWEST_RELEASE


@dataclass(slots=True)
class ClusterOptions:
    """The options of `KafkaCluster`, which documents them."""

    data_dir: str
    ephemeral: bool
    brokers: int = 1
    release: str = NEWEST_RELEASE  # whose features a new cluster has
    config: dict[str, str] = field(default_factory=dict)
    secure: bool = False
    port: int = 0
    zookeeper_port: int = 0
    zookeepers: int = 1
    zookeeper: str | None = None
    zookeeper_credentials: str | None = None
    metrics_port: int | None = None
    network: bool = False
    registry: str | None = None  # the URL of the schema registry
    verbose: bool = False


@dataclass(slots=True)
class CommandOptions:
    """A `pybroker` command: its words, and the process around it."""

    words: list[str]
    environment: dict[str, str]
    directory: str
    output: str  # the file to which both outputs are appended
    new_session: bool
    network_namespace: str | None = None


def config_texts(config: Mapping[str, object]) -> dict[str, str]:
    """The values as in `server.properties`: true and false, lists with commas, None left out."""
    return {key: _text(value) for key, value in config.items() if value is not None}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value)
