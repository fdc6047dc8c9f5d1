"""The layer of share groups in a broker: the leader's side, and what it needs.

Job: build it and connect it, from the configuration. Nothing runs yet.
"""

from __future__ import annotations

from ...replication.share.sessions import ShareSessions
from ..cluster.parts import Ground
from ..coordinators.parts import Coordinators
from ..replicas.parts import Replicas
from .group_settings import GroupSettings
from .share_leader import ShareLeader
from .share_metrics import register_share_metrics


def build_share_leader(
    ground: Ground, replicas: Replicas, coordinators: Coordinators
) -> ShareLeader:
    """Build the leader, with sessions and settings, and connect it to the replicas."""
    leader = ShareLeader(
        replicas.runtime,
        coordinators.persister,
        GroupSettings(coordinators.group_configs).of,
        ShareSessions(ground.config.get_int("group.share.max.share.sessions")),
        clock=ground.clock,
    )
    replicas.runtime.on_share_fetches_due = leader.on_due
    register_share_metrics(ground.metrics, leader)
    return leader
