"""Names at the target, as MirrorMaker 2 gives and reads them."""

from __future__ import annotations

import pytest

from pybroker_kafka.client.mirror.policies import IdentityPolicy, ReplicationPolicy


def test_the_default_policy() -> None:
    policy = ReplicationPolicy()
    assert policy.remote_topic("A", "t") == "A.t"
    assert policy.topic_source("A.t") == "A"
    assert policy.upstream_topic("A.B.t") == "B.t"
    assert policy.original_topic("A.B.t") == "t"
    assert policy.topic_source("t") is None
    assert policy.upstream_topic("t") is None
    assert policy.topic_source("t.") is None  # Java's split drops what is empty at the end
    assert policy.topic_source(".t") == ""
    assert policy.offset_syncs_topic("B") == "mm2-offset-syncs.B.internal"
    assert policy.checkpoints_topic("A") == "A.checkpoints.internal"
    assert policy.is_heartbeats("B.A.heartbeats")
    assert not policy.is_heartbeats("heartbeats.A")


def test_another_separator() -> None:
    policy = ReplicationPolicy("__")
    assert policy.remote_topic("A", "t.u") == "A__t.u"
    assert policy.upstream_topic("A__t.u") == "t.u"
    assert policy.topic_source("A.t") is None
    assert policy.checkpoints_topic("A") == "A__checkpoints__internal"
    old = ReplicationPolicy("__", internal_separator=False)
    assert old.checkpoints_topic("A") == "A.checkpoints.internal"


def test_identity() -> None:
    policy = IdentityPolicy("A")
    assert policy.remote_topic("A", "t") == "t"
    assert policy.remote_topic("A", "heartbeats") == "A.heartbeats"
    assert policy.topic_source("t") == "A"
    assert policy.upstream_topic("t") == "t"
    assert policy.original_topic("t") == "t"
    assert policy.upstream_topic("A.heartbeats") == "heartbeats"


@pytest.mark.parametrize(
    ("topic", "is_cycle"),
    [("t", False), ("A.t", False), ("B.t", True), ("C.B.t", True), ("A.C.t", False)],
)
def test_cycles(topic: str, is_cycle: bool) -> None:
    assert ReplicationPolicy().is_cycle(topic, "B") is is_cycle


def test_identity_sees_no_cycles() -> None:
    assert not IdentityPolicy("A").is_cycle("t", "B")
    assert IdentityPolicy("A").is_cycle("B.heartbeats", "B")


@pytest.mark.parametrize(
    ("topic", "is_internal"),
    [
        ("__consumer_offsets", True),
        (".x", True),
        ("connect-internal", True),
        ("A.checkpoints.internal", True),
        ("internal", False),
        ("orders", False),
    ],
)
def test_internal_topics(topic: str, is_internal: bool) -> None:
    assert ReplicationPolicy().is_internal(topic) is is_internal
