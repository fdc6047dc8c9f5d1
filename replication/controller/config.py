"""The part of the broker's configuration that the controller machine uses."""

from dataclasses import dataclass, field

from ...protocol.features import NOTHING_FINALIZED, Levels
from ..inter_broker import NEWEST, InterBrokerProtocol


@dataclass(slots=True)
class ControllerConfig:
    """Mutable: the dynamic ones are changed in place by the runtime."""

    broker_id: int
    inter_broker_listener: str = "PLAINTEXT"
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_ms: int = 300_000
    protocol: InterBrokerProtocol = NEWEST
    features: Levels = field(default_factory=lambda: NOTHING_FINALIZED)  # of a new cluster
