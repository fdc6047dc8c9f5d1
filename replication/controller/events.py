"""The events of the controller machine. They are handled strictly one after the other.

A request event carries an opaque `token`; exactly one `Reply` with it follows.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ...protocol.apis.allocate_producer_ids import AllocateProducerIdsRequest
from ...protocol.apis.alter_partition import AlterPartitionRequest
from ...protocol.apis.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ...protocol.apis.controlled_shutdown import ControlledShutdownRequest
from ...protocol.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from ...protocol.apis.update_features import UpdateFeaturesRequest
from ...protocol.topics import TopicPartition
from .effects import ControlRequest


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
class AlterPartitionReassignments:
    token: object
    request: AlterPartitionReassignmentsRequest


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    token: object
    request: ListPartitionReassignmentsRequest


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    token: object
    request: UpdateFeaturesRequest
    api_version: int


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled:
    """A config change allows unclean election for a topic, or by default (None)."""

    topic: str | None


@dataclass(frozen=True, slots=True)
class AutoRebalance:
    """Time to give leadership back to preferred replicas."""


RequestEvent: TypeAlias = (
    AlterPartition
    | ControlledShutdown
    | AllocateProducerIds
    | ElectLeaders
    | AlterPartitionReassignments
    | ListPartitionReassignments
    | UpdateFeatures
)

Event: TypeAlias = (
    Startup
    | NodeChanged
    | ChildrenChanged
    | SessionLost
    | BrokerResponse
    | RequestEvent
    | UncleanElectionEnabled
    | AutoRebalance
)
