"""The follower's side of fetch sessions against the leader's side, with answers that get lost.

The twin is a plain dict of what is wanted now: after each exchange that was answered, what the
leader would look at for this session must be exactly that, whatever went before: changes,
partitions that came and went, topics made anew, lost answers, evicted sessions, no room for one.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.apis.fetch import FetchableTopicResponse, FetchResponse, FetchTopic
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.replication.fetch_session import FetchSessions, SessionKey
from pybroker_kafka.replication.follower_session import FollowerSession, SessionRequest, Wanted
from pybroker_kafka.replication.reader import error_data
from pybroker_kafka.replication.types import ZERO_TOPIC_ID, FetchEntry

TOPICS = ("a", "b")
_KEYS = st.tuples(st.sampled_from(TOPICS), st.integers(0, 2))
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), _KEYS, st.integers(0, 3)),
        st.tuples(st.just("want"), _KEYS, st.integers(0, 3)),
        st.tuples(st.just("drop"), _KEYS),
        st.tuples(st.just("identify"), st.sampled_from(TOPICS), st.integers(0, 2)),
        st.tuples(st.just("exchange"), st.sampled_from(["answered", "answered", "lost", "unsent"])),
        st.tuples(st.just("evict")),
        st.tuples(st.just("room"), st.integers(0, 1)),
    ),
    max_size=60,
)


class Scenario:
    def __init__(self) -> None:
        self.session = FollowerSession()
        self.wanted: dict[TopicPartition, Wanted] = {}
        self.changed: dict[TopicPartition, Wanted] = {}
        self.gone: set[TopicPartition] = set()
        self.topic_ids = {topic: topic.encode() * 16 for topic in TOPICS}
        ids = iter(range(1, 10_000))
        self.leader = FetchSessions(lambda _low, _high: next(ids), 1)

    def want(self, key: TopicPartition, offset: int) -> None:
        wanted = Wanted(key[0], self.topic_ids[key[0]], key[1], offset, 1, -1, 0, 1000)
        self.wanted[key] = self.changed[key] = wanted
        self.gone.discard(key)

    def drop(self, key: TopicPartition) -> None:
        if self.wanted.pop(key, None) is not None:
            self.changed.pop(key, None)
            self.gone.add(key)

    def identify(self, topic: str, generation: int) -> None:
        """The topic is made anew with another id; generation 0 has none."""
        self.topic_ids[topic] = (
            (topic.encode() * 15 + b"%d" % generation) if generation else (ZERO_TOPIC_ID)
        )
        for key, wanted in list(self.wanted.items()):
            if key[0] == topic:
                self.want(key, wanted.fetch_offset)

    def evict(self) -> None:
        self.leader._sessions.clear()

    def room(self, slots: int) -> None:
        self.leader.slots = slots

    def exchange(self, fate: str) -> None:
        request = self.session.build(self.changed, self.gone)
        self.changed, self.gone = {}, set()
        if not len(self.session) and not request.forgotten:
            return
        if fate == "unsent":
            self.session.reset()
            return
        response, seen = self.answer(request)
        if fate == "lost":
            self.session.reset()
            return
        data = self.session.accept(request, response)
        if data is None:
            assert response.error_code
            return
        assert seen == {
            (w.topic_id if request.uses_topic_ids else w.topic, w.partition): w.fetch_offset
            for w in self.wanted.values()
        }
        if request.is_full:
            assert {key for key, _ in data} == set(self.wanted)

    def answer(self, request: SessionRequest) -> tuple[FetchResponse, dict[SessionKey, int]]:
        """What the leader says, and what it looked at."""
        by_id = request.uses_topic_ids
        context = self.leader.begin(
            request.session_id,
            request.epoch,
            {
                (topic.topic_id if by_id else topic.topic, partition.partition): FetchEntry(
                    topic.topic,
                    partition.partition,
                    topic_id=topic.topic_id,
                    fetch_offset=partition.fetch_offset,
                    max_bytes=1000,
                )
                for topic in request.topics
                for partition in topic.partitions
            },
            [
                (topic.topic_id if by_id else topic.topic, partition)
                for topic in request.forgotten
                for partition in topic.partitions
            ],
            is_follower=True,
            uses_topic_ids=by_id,
            now_ms=0,
        )
        results = [error_data(entry.partition, 0) for entry in context.entries]  # type: ignore[arg-type]
        seen: dict[SessionKey, int] = {
            ((entry.topic_id if by_id else entry.topic) or "", entry.partition): entry.fetch_offset
            for entry in context.entries
        }
        error, session_id, answer = context.finish(results)
        responses = [
            FetchableTopicResponse(
                topic=entry.topic or "", topic_id=entry.topic_id, partitions=[data]
            )
            for entry, data in answer
        ]
        return FetchResponse(error_code=error, session_id=session_id, responses=responses), seen


@settings(max_examples=300, deadline=None)
@given(steps=_STEPS)
def test_the_leader_looks_at_what_is_wanted(steps: list[tuple[Any, ...]]) -> None:
    scenario = Scenario()
    for name, *arguments in steps:
        getattr(scenario, name)(*arguments)
    for _ in range(3):  # at the latest now: lost sessions are found, then opened anew
        scenario.exchange("answered")


def test_a_topic_is_named_once_for_all_its_partitions() -> None:
    scenario = Scenario()
    for partition in range(3):
        scenario.want(("a", partition), 5)
    request = scenario.session.build(scenario.changed, ())
    (topic,) = request.topics
    assert isinstance(topic, FetchTopic)
    assert [partition.partition for partition in topic.partitions] == [0, 1, 2]
