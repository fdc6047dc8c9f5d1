"""Who may be a learner of a leader."""

from typing import Any

import pytest

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.zookeeper.quorum.history import History
from pybroker_kafka.zookeeper.quorum.leader import Leader, Limits
from pybroker_kafka.zookeeper.quorum.packets import (
    PROTOCOL_VERSION,
    LearnerInfo,
    PacketType,
    QuorumPacket,
)


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (LearnerInfo(1, PROTOCOL_VERSION, 0), "our own id, 1"),  # two members with one id
        (LearnerInfo(2, PROTOCOL_VERSION - 1, 0), "ZAB before 1.0"),
        (LearnerInfo(2, PROTOCOL_VERSION, 1), "reconfigured"),
    ],
)
def test_a_learner_that_cannot_count_is_refused(info: LearnerInfo, why: str) -> None:
    host: Any = None  # nothing is saved before a quorum is there
    leader = Leader(host, 1, frozenset({1, 2, 3}), Limits(100, 10, 5), History(0), 0, 0, 0)
    leader.begin(0)
    leader.connected("link", 0)
    packet = QuorumPacket(PacketType.FOLLOWERINFO, 0, jute.encode(info))
    with pytest.raises(ProtocolError, match=why):
        leader.receive("link", packet, 0)
    assert leader.learners == []
