"""Purgatory and timer wheel against a dumb twin: a list searched from end to end."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.replication.purgatory import KeyedPurgatory, Operation

EVERYONE = 1000
_STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("watch"),
            st.sets(st.integers(0, 4), min_size=1, max_size=3),
            st.one_of(
                st.none(),
                st.integers(-5, 200),
                st.integers(0, 10_000_000),
                st.sampled_from([63, 64, 65, 4095, 4096, 4097, 1 << 36, 1 << 40]),
            ),
        ),
        st.tuples(st.just("remove"), st.integers(0, 30)),
        st.tuples(
            st.just("expire"),
            st.one_of(st.integers(-3, 130), st.integers(0, 5_000_000), st.just(1 << 37)),
        ),
        st.tuples(st.just("jump")),
    ),
    max_size=60,
)


class TwinPurgatory:
    def __init__(self) -> None:
        self.waiting: list[tuple[Operation, set[int], int | None]] = []

    def due(self, now_ms: int) -> set[Operation]:
        due = {
            op for op, _, deadline in self.waiting if deadline is not None and deadline <= now_ms
        }
        self.waiting = [entry for entry in self.waiting if entry[0] not in due]
        return due

    def remove(self, operation: Operation) -> None:
        self.waiting = [entry for entry in self.waiting if entry[0] is not operation]

    def watchers(self, key: int) -> list[Operation]:
        return [op for op, keys, _ in self.waiting if key in keys]

    def earliest(self) -> int | None:
        return min((d for _, _, d in self.waiting if d is not None), default=None)


@settings(max_examples=400, deadline=None)
@given(start_ms=st.sampled_from([0, 1_700_000_000_123, (1 << 42) - 1]), steps=_STEPS)
def test_agrees_with_a_list(start_ms: int, steps: list[tuple[Any, ...]]) -> None:
    purgatory: KeyedPurgatory[Operation] = KeyedPurgatory("test", start_ms)
    twin = TwinPurgatory()
    now_ms = start_ms
    seen: list[Operation] = []
    for step in steps:
        if step[0] == "watch":
            operation = Operation(len(seen))
            deadline_ms = None if step[2] is None else now_ms + step[2]
            purgatory.watch(operation, step[1], deadline_ms)
            twin.waiting.append((operation, step[1], deadline_ms))
            seen.append(operation)
        elif step[0] == "remove" and seen:
            operation = seen[step[1] % len(seen)]
            was_waiting = any(entry[0] is operation for entry in twin.waiting)
            assert purgatory.remove(operation) is was_waiting
            twin.remove(operation)
        elif step[0] in ("expire", "jump"):
            target = purgatory.next_deadline_ms() if step[0] == "jump" else now_ms + step[1]
            if target is None:
                continue
            now_ms = max(now_ms, target)
            expired = purgatory.expire(target, EVERYONE)
            assert len(expired) == len(set(expired))
            assert set(expired) == twin.due(now_ms)
        assert len(purgatory) == len(twin.waiting)
        for key in range(5):
            assert purgatory.watchers(key) == twin.watchers(key)
            assert (key in purgatory.watched) == bool(twin.watchers(key))
        earliest, next_ms = twin.earliest(), purgatory.next_deadline_ms()
        assert (earliest is None) == (next_ms is None)
        if earliest is not None and next_ms is not None:
            assert now_ms <= next_ms <= max(earliest, now_ms)


def test_every_operation_is_reached_by_following_next_deadline() -> None:
    purgatory: KeyedPurgatory[Operation] = KeyedPurgatory("test", 1_000)
    deadlines = [1_001, 1_063, 1_064, 5_000, 70_000, 1_000_000, 90_000_000, 10_000_000_000]
    for deadline_ms in deadlines:
        purgatory.watch(Operation(deadline_ms), ["key"], deadline_ms)
    fired: list[tuple[int, object]] = []
    rounds = 0
    while (next_ms := purgatory.next_deadline_ms()) is not None:
        fired += [(next_ms, operation.token) for operation in purgatory.expire(next_ms, EVERYONE)]
        rounds += 1
    assert fired == [(deadline_ms, deadline_ms) for deadline_ms in deadlines]
    assert rounds <= len(deadlines) * 6
