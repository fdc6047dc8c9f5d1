"""What happens to the controller machine. Events are handled strictly one after the other.

A request event carries an opaque `token`; exactly one `Reply` with it follows.
"""

from dataclasses import dataclass
from typing import TypeAlias

from protocol.messages.cluster import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
)
from replication.controller.context import TopicPartition
from replication.controller.effects import ControlRequest


@dataclass(frozen=True, slots=True)
class Startup:
    """Watch /controller and try to become it."""


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A data or existence watch fired, or may have."""

    path: str


@dataclass(frozen=True, slots=True)
class ChildrenChanged:
    """A child watch fired, or may have."""

    path: str


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The ZooKeeper session has expired: we are controller no more."""


@dataclass(frozen=True, slots=True)
class BrokerResponse:
    """A broker answered a control request."""

    broker_id: int
    request: ControlRequest
    response: object


@dataclass(frozen=True, slots=True)
class AlterPartition:
    token: object
    request: AlterPartitionRequest
    api_version: int


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    token: object
    request: ControlledShutdownRequest


@dataclass(frozen=True, slots=True)
class AllocateProducerIds:
    token: object
    request: AllocateProducerIdsRequest


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """The answer is a mapping TopicPartition -> ErrorCode. None means all partitions."""

    token: object
    partitions: tuple[TopicPartition, ...] | None
    unclean: bool


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled:
    """A config change allows unclean election for a topic, or by default (None)."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class AutoRebalance:
    """Time to give leadership back to preferred replicas."""


Event: TypeAlias = (
    Startup
    | NodeChanged
    | ChildrenChanged
    | SessionLost
    | BrokerResponse
    | AlterPartition
    | ControlledShutdown
    | AllocateProducerIds
    | ElectLeaders
    | UncleanElectionEnabled
    | AutoRebalance
)
