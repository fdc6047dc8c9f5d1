"""A fetch session beside a broker that keeps what it was told."""

from __future__ import annotations

import random

import pytest

from pybroker_kafka.client.consumer.fetch_session import FetchSession, SessionRequest, Wanted
from pybroker_kafka.protocol.errors import ErrorCode

IDS = {"a": b"a" * 16, "b": b"b" * 16}
Known = dict[tuple[bytes, int], tuple[int, int]]


class Broker:
    """The partitions of its one session, by topic id."""

    def __init__(self) -> None:
        self.session_id = 0
        self.epoch = 0
        self.known: Known = {}

    def answer(self, request: SessionRequest) -> tuple[ErrorCode, int]:
        if request.epoch == 0:
            self.session_id += 1
            self.epoch = 0
            self.known = {}
        elif request.session_id != self.session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0
        elif request.epoch != self.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0
        for forgotten in request.forgotten:
            for partition in forgotten.partitions:
                del self.known[forgotten.topic_id, partition]
        for topic in request.topics:
            for part in topic.partitions:
                at = (part.fetch_offset, part.current_leader_epoch)
                self.known[topic.topic_id, part.partition] = at
        self.epoch += 1
        return ErrorCode.NONE, self.session_id


@pytest.mark.parametrize("seed", range(20))
def test_the_broker_knows_what_is_wanted(seed: int) -> None:
    rng = random.Random(seed)
    session, broker = FetchSession(), Broker()
    ids = dict(IDS)
    for _ in range(200):
        if rng.random() < 0.05:  # a topic is made anew
            ids[rng.choice("ab")] = rng.randbytes(16)
        wanted = {
            (topic, partition): Wanted(ids[topic], rng.randint(0, 3), rng.randint(0, 1), 100)
            for topic in "ab"
            for partition in range(4)
            if rng.random() < 0.6
        }
        request = session.request(wanted)
        chance = rng.random()
        if chance < 0.05:
            session.on_lost()
            continue
        code, session_id = broker.answer(request)
        if chance < 0.1:  # it has come, the answer has not
            session.on_lost()
            continue
        if chance < 0.15:
            broker.session_id += 1  # it has forgotten the session
        if session.on_answer(code, session_id):
            told = {(w.topic_id, p): (w.offset, w.leader_epoch) for (_, p), w in wanted.items()}
            assert broker.known == told
        else:
            assert session.request(wanted).epoch == 0, "a full request, which begins another"


def test_only_changes_are_said_again() -> None:
    session = FetchSession()
    wanted = {("a", n): Wanted(IDS["a"], 0, 0, 100) for n in range(3)}
    assert session.request(wanted).epoch == 0
    session.on_answer(ErrorCode.NONE, 9)
    wanted["a", 1] = Wanted(IDS["a"], 5, 0, 100)
    request = session.request(wanted)
    assert (request.session_id, request.epoch) == (9, 1)
    assert [part.partition for topic in request.topics for part in topic.partitions] == [1]
    session.on_answer(ErrorCode.NONE, 9)
    del wanted["a", 2]
    assert [each.partitions for each in session.request(wanted).forgotten] == [[2]]


def test_brokers_without_sessions_are_told_everything() -> None:
    session = FetchSession()
    wanted = {("a", 0): Wanted(IDS["a"], 0, 0, 100)}
    for _ in range(3):
        request = session.request(wanted)
        assert (request.session_id, request.epoch, len(request.topics)) == (0, 0, 1)
        assert session.on_answer(ErrorCode.NONE, 0)


def test_what_a_broker_keeps_is_ended_once() -> None:
    session, broker = FetchSession(), Broker()
    assert session.end() is None  # none has begun
    session.on_answer(*broker.answer(session.request({("a", 0): Wanted(IDS["a"], 0, 0, 100)})))
    assert session.end() == SessionRequest(broker.session_id, -1, [], [])
    assert session.end() is None
    assert session.request({}).epoch == 0
