"""The actions that the controller machine requests of its runtime, beside ZooKeeper operations."""

from dataclasses import dataclass
from typing import TypeAlias

from ...protocol.apis.leader_and_isr import LeaderAndIsrRequest
from ...protocol.apis.stop_replica import StopReplicaRequest
from ...protocol.apis.update_metadata import UpdateMetadataRequest
from .znodes import BrokerRegistration

ControlRequest: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Queue a request for a broker; its response comes back as `BrokerResponse`."""

    broker_id: int
    request: ControlRequest


@dataclass(frozen=True, slots=True)
class OpenChannel:
    """A broker is up, or has other endpoints: open its channel, or point it there."""

    broker: BrokerRegistration


@dataclass(frozen=True, slots=True)
class CloseChannel:
    """A broker is gone: close its channel and drop what is queued for it."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request event with this token."""

    token: object
    response: object


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Deliver `event` after `delay_ms`; the timer dies with the resignation."""

    delay_ms: int
    event: object


@dataclass(frozen=True, slots=True)
class Resigned:
    """This broker is no longer the controller: close all channels, stop all timers."""


Effect: TypeAlias = SendRequest | OpenChannel | CloseChannel | Reply | StartTimer | Resigned
