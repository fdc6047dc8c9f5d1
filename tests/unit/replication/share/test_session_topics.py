"""A share session names the topics that its broker did not know when the session began."""

from __future__ import annotations

from pybroker_kafka.replication.share.sessions import ShareSessions, Wanted

KEY = ("g", "member")
FIRST, SECOND = bytes(15) + b"\1", bytes(15) + b"\2"


def test_a_topic_gets_its_name_once_the_broker_knows_the_topic() -> None:
    sessions = ShareSessions(10)
    wanted = [Wanted(FIRST, 0, None), Wanted(SECOND, 0, "known")]
    sessions.begin(KEY, 0, wanted, (), acknowledges=False, connection=1)
    names: dict[bytes, str] = {}
    sessions.name_topics(KEY, names.get)
    found = sessions.begin(KEY, 1, (), (), acknowledges=False, connection=1)
    assert list(found.wanted) == wanted
    names[FIRST] = "t"
    sessions.name_topics(KEY, names.get)
    found = sessions.begin(KEY, 2, (), (), acknowledges=False, connection=1)
    assert list(found.wanted) == [Wanted(FIRST, 0, "t"), Wanted(SECOND, 0, "known")]
    assert sessions.partition_count == 2


def test_without_a_session_there_is_nothing_to_name() -> None:
    ShareSessions(10).name_topics(KEY, {FIRST: "t"}.get)
