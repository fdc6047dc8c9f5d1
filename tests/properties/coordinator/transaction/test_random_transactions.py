"""The transaction coordinator and its dumb twin get the same random requests, in the same order.

Each seed is one run.

Producers that start, go on, are zombies; appends that are acknowledged late, fail, or fail and are
in the log all the same; markers that fail; producer ids that do not come; time; leaderships that
end in the middle of anything, with or without the last appends, and come back; clients of version 2
beside those of version 0, under a transaction.version that is raised and lowered. After each step
the machine has answered, appended and sent exactly what the twin says, and knows the same.

Beside the twin, what transactions are for: nobody gets the same producer id and epoch twice, no
zombie commits, and the markers of one transaction all say the same, whoever sends them.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from pybroker_kafka.coordinator.transaction.core import (
    AllocateProducerId,
    Append,
    Attempt,
    EndResult,
    FenceAttempt,
    InitAttempt,
    InitResult,
    Reply,
    SendMarkers,
    TransactionConfig,
)
from pybroker_kafka.coordinator.transaction.metadata import Transition
from pybroker_kafka.coordinator.transaction.records import (
    decode_key,
    decode_value,
    transaction_record,
)
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import assign_offset_and_epoch, iter_records
from pybroker_kafka.protocol.records.builder import build_batch
from tests.support import examples
from tests.support.transaction_twin import (
    FENCED,
    LATER_FIELDS,
    LOGGED_FIELDS,
    MAX_EPOCH,
    Twin,
)

E = ErrorCode
# An id that is in the log from the start, and has few epochs left.
OLD_NAME, OLD_PRODUCER_ID = "old", 50
CONFIG = TransactionConfig(
    transactional_id_expiration_ms=3_000,
    max_timeout_ms=1_000,
    abort_timed_out_interval_ms=200,
    remove_expired_interval_ms=500,
)
NAMES = ("x", "y", OLD_NAME)
WHO = ("current", "current", "current", "current", "current", "last", "next", "other id")
EXPECTED = (None, None, None, *WHO)
PARTITIONS = (("a", 0), ("a", 1), ("b", 0))
LOG_ERRORS = (
    *[E.NONE] * 16,
    E.NOT_ENOUGH_REPLICAS,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    E.REQUEST_TIMED_OUT,
    E.MESSAGE_TOO_LARGE,
)
LOGGED_ANYWAY = (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.REQUEST_TIMED_OUT)
MARKER_ERRORS = (
    *[E.NONE] * 12,
    E.NOT_LEADER_OR_FOLLOWER,
    E.UNKNOWN_SERVER_ERROR,
    E.UNSUPPORTED_VERSION,
    None,
)
STEPS = 400
SEEDS = examples.of(60)
# How often each thing happens.
WEIGHTS = {
    "init": 6,
    "allocate": 8,
    "add": 8,
    "end": 8,
    "acknowledge": 30,
    "answer_markers": 16,
    "pass_time": 3,
    "unload": 1,
    "begin_load": 8,
    "finish_load": 8,
    "change_level": 1,
}


class Run:
    """One run: the machine, the twin, and the broker around them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1_000_000
        self.twin = Twin(max_timeout_ms=1_000, expiration_ms=3_000)
        self.machine = TransactionCoordinator(CONFIG, None, lambda: self.twin.level)
        self.machine.start(1, self.now)
        # Of all clients, or, in one run of three, of each request.
        self.client_versions = ((0,), (2,), (0, 2))[seed % 3]
        self.twin.level = max(self.client_versions)
        self.abort_at, self.expire_at = self.now + 200, self.now + 500
        self.epoch = 0
        self.next_pid = 100
        self.loading: Any = None
        self.calls = 0
        self.attempts: list[tuple[Attempt, Any]] = []  # and what the twin does with the outcome
        self.appends: list[Append] = []  # in flight
        self.jobs: list[Any] = []
        # The log: batches, and what the twin says that they mean; the last are not replicated.
        self.log: list[tuple[bytearray, dict[str, Any]]] = []
        self.in_flight: list[dict[str, Any]] = []  # the twin's side of `appends`
        self.granted: dict[str, tuple[int, int]] = {}
        self.all_granted: set[tuple[str, int, int]] = set()
        self.asked_to_go_on: set[int] = set()
        self.names: dict[int, str] = {}
        self.outcomes: dict[tuple[str, int], bool] = {}
        self.answers: list[tuple[Any, Any]] = []

    # The broker around the machine

    def perform(self) -> None:
        """Compare what came out with what the twin says."""
        appended, jobs = [], []
        attempts: list[Attempt] = []
        for effect in self.machine.take_effects():
            if isinstance(effect, Reply):
                self.answers.append((effect.token, effect.result))
            elif isinstance(effect, Append):
                appended.append(effect)
            elif isinstance(effect, SendMarkers):
                jobs.append(effect.job)
            else:
                assert isinstance(effect, AllocateProducerId)
                attempts.append(effect.attempt)
        twin = self.twin
        expected = [(t, InitResult(*r) if type(r) is tuple else r) for t, r in twin.answers]
        assert self.answers == expected
        assert [label_of(attempt) for attempt in attempts] == [who for who, _ in twin.allocations]
        after = [then for _, then in twin.allocations]
        self.attempts.extend(zip(attempts, after, strict=True))
        assert len(appended) == len(twin.appends)
        for append, entry in zip(appended, twin.appends, strict=True):
            assert records_of(append.batch) == entry["records"]
            self.appends.append(append)
            self.in_flight.append(entry)
            entry["leadership"] = self.epoch
            assign_offset_and_epoch(append.batch, 0, len(self.log), self.epoch)
            self.log.append((append.batch, entry))
        assert [as_dict(job) for job in jobs] == twin.jobs
        for job in jobs:
            self.jobs.append(job)
            self.note_decision(job)
        for token, result in self.answers:
            self.note_grant(token, result)
        self.answers, twin.answers, twin.appends, twin.jobs, twin.allocations = [], [], [], [], []

    def note_decision(self, job: Any) -> None:
        """All markers of one transaction say the same; those of a commit are not a zombie's."""
        start = self.twin.ids[job.transactional_id]["start"]
        transaction = (job.transactional_id, start)
        is_first = transaction not in self.outcomes
        assert self.outcomes.setdefault(transaction, job.committed) == job.committed
        raised = job.transaction_version == 2
        if raised and not is_first:
            return  # its producer has the next epoch by now
        producer = (job.producer_id, job.producer_epoch - raised)
        if job.committed and (job.transactional_id, *producer) in self.all_granted:
            assert producer == self.granted[job.transactional_id]

    def note_grant(self, token: int, result: Any) -> None:
        if isinstance(result, (InitResult, EndResult)) and result.error is E.NONE:
            name = self.names[token]
            grant = (name, result.producer_id, result.producer_epoch)
            is_again = token in self.asked_to_go_on or isinstance(result, EndResult)
            assert grant not in self.all_granted or is_again
            self.all_granted.add(grant)
            self.granted[name] = grant[1:]

    def step(self) -> None:
        """One thing happens, a millisecond after the last."""
        self.now += 1
        (what,) = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        getattr(self, what)()
        self.both_know_the_same()
        self.nothing_waits_for_nobody()

    def producer(self, name: str, who: str) -> tuple[int, int]:
        i = self.twin.ids.get(name, {"pid": 7, "epoch": 0, "last_pid": 7, "last_epoch": 0})
        return {
            "current": (i["pid"], i["epoch"]),
            "last": (i["pid"], i["epoch"] - 1),
            "next": (i["pid"], i["epoch"] + 1),
            "other id": (i["last_pid"] if i["last_pid"] >= 0 else 5, MAX_EPOCH - 1),
        }[who]

    def new_call(self) -> int:
        self.calls += 1
        return self.calls

    # Leadership

    def begin(self) -> None:
        empty, epoch = TransactionState.EMPTY, MAX_EPOCH - 3
        old = Transition(empty, OLD_PRODUCER_ID, epoch, -1, 500, frozenset(), -1, self.now)
        batch = build_batch([transaction_record(OLD_NAME, old, self.now)])
        self.log.append((batch, {"records": records_of(batch)}))
        self.begin_load()
        self.finish_load()

    def begin_load(self) -> None:
        if self.loading is not None or self.twin.leadership:
            return
        self.epoch += 1
        self.loading = self.machine.begin_load(0, self.epoch)
        assert self.loading is not None
        self.twin.is_loading = True
        self.read = [entry for _, entry in self.log]
        for batch, _ in self.log:
            self.loading.add(batch)

    def finish_load(self) -> None:
        if self.loading is None:
            return
        load, self.loading = self.loading, None
        self.machine.finish_load(load, self.now)
        self.twin.load(self.read, self.epoch, self.now)
        self.perform()

    def unload(self) -> None:
        """The last appends that are not acknowledged may be lost."""
        self.epoch += 1
        self.machine.unload(0, self.epoch)
        self.loading = None
        self.twin.unload()
        entries = [entry for _, entry in self.log]
        unreplicated = [entry for entry in self.in_flight if any(entry is e for e in entries)]
        kept = self.random.randint(0, len(unreplicated))
        gone = unreplicated[kept:]
        self.log = [item for item in self.log if not any(item[1] is e for e in gone)]

    # Requests

    def init(self) -> None:
        name, expected = self.random.choice(NAMES), self.random.choice(EXPECTED)
        timeout = self.random.choice((300, 1_000, 1_000, 1_000, 0, 1_001))
        call = self.new_call()
        self.names[call] = name
        producer = None if expected is None else self.producer(name, expected)
        if producer is not None:
            producer = (producer[0], max(0, producer[1]))
            self.asked_to_go_on.add(call)
        attempt = InitAttempt(call, name, timeout, producer)
        self.twin.init(call, name, timeout, producer, self.now)
        self.machine.init_producer_id(attempt, self.now)
        self.perform()

    def allocate(self) -> None:
        if not self.attempts:
            return
        attempt, then = self.attempts.pop(0)
        allocated: int | ErrorCode = E.COORDINATOR_LOAD_IN_PROGRESS
        if self.random.random() < 0.8:
            allocated = self.next_pid
            self.next_pid += 1
        then(allocated, self.now)
        self.machine.producer_id_allocated(attempt, allocated, self.now)
        self.perform()

    def add(self) -> None:
        name = self.random.choice(NAMES)
        call, producer = self.new_call(), self.producer(name, self.random.choice(WHO))
        partitions = self.random.sample(PARTITIONS, self.random.randint(0, 3))
        version = self.random.choice(self.client_versions)
        add = self.twin.add_2 if version == 2 else self.twin.add
        add(call, name, *producer, partitions, self.now)
        self.machine.add_partitions(
            call, name, *producer, partitions, self.now, client_version=version
        )
        self.perform()

    def end(self) -> None:
        name, committed = self.random.choice(NAMES), self.random.random() < 0.5
        call, producer = self.new_call(), self.producer(name, self.random.choice(WHO))
        self.names[call] = name
        version = self.random.choice(self.client_versions)
        end = self.twin.end_2 if version == 2 else self.twin.end
        end(call, name, *producer, self.now, committed=committed)
        self.machine.end_transaction(
            call, name, *producer, self.now, committed=committed, client_version=version
        )
        self.perform()

    def change_level(self) -> None:
        if len(self.client_versions) > 1:
            self.twin.level = self.random.choice((0, 1, 2))

    # Outcomes

    def acknowledge(self) -> None:
        if not self.appends:
            return
        error = self.random.choice(LOG_ERRORS)
        append, entry = self.appends.pop(0), self.in_flight.pop(0)
        is_logged = any(e is entry for _, e in self.log)
        if not is_logged and error is E.NONE:
            error = E.NOT_LEADER_OR_FOLLOWER
        is_ours = entry["leadership"] == self.twin.leadership
        if error is not E.NONE and error not in LOGGED_ANYWAY and is_ours:
            self.log = [item for item in self.log if item[1] is not entry]
        self.machine.appended(append.append_id, error, self.now)
        entry["answered"](error, self.now)
        self.perform()

    def answer_markers(self) -> None:
        if not self.jobs:
            return
        job = self.jobs.pop(self.random.randrange(len(self.jobs)))
        drawn = {p: self.random.choice(MARKER_ERRORS) for p in sorted(job.partitions)}
        results = {p: error for p, error in drawn.items() if error is not None}
        if self.random.random() < 0.02:
            # A fenced coordinator: with one partition, so that the order does not matter.
            first = min(job.partitions)
            job = job._replace(partitions=frozenset({first}))
            results = {first: self.random.choice(sorted(FENCED))}
        self.twin.markers(as_dict(job), results, self.now)
        self.machine.markers_answered(job, results, self.now)
        self.perform()

    def pass_time(self) -> None:
        end = self.now + self.random.choice((1, 60, 60, 300, 300, 1_500, 4_000))
        while (deadline := self.machine.next_deadline_ms()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.machine.tick(self.now)
            self.twin.retry(self.now)
            if self.abort_at <= self.now:
                self.abort_at = self.now + 200
                self.twin.abort_timed_out(self.now)
            if self.expire_at <= self.now:
                self.expire_at = self.now + 500
                self.twin.expire(self.now)
            self.perform()
        self.now = end

    # What is known

    def both_know_the_same(self) -> None:
        seen = {
            m.transactional_id: {
                "name": m.transactional_id,
                "pid": m.producer_id,
                "epoch": m.producer_epoch,
                "last_pid": m.last_producer_id,
                "last_epoch": m.last_producer_epoch,
                "timeout": m.timeout_ms,
                "state": m.state.label,
                "parts": frozenset(m.partitions),
                "start": m.start_ms,
                "update": m.update_ms,
                "pending": None if m.pending_state is None else m.pending_state.label,
                "fencing": m.is_fencing,
                "next_pid": m.next_producer_id,
                "version": m.client_version,
            }
            for m in self.machine.transactions()
        }
        assert seen == self.twin.ids

    def nothing_waits_for_nobody(self) -> None:
        assert self.machine.appends_in_flight == len(self.appends)
        assert self.machine.pending_markers == len(self.twin.ending)


def records_of(batch: bytearray) -> list[tuple[str, dict[str, Any] | None]]:
    """What an appended batch means, in the twin's terms."""
    records: list[tuple[str, dict[str, Any] | None]] = []
    for _, _, key, value, *_ in iter_records(batch):
        assert key is not None
        name = decode_key(key)
        if value is None:
            records.append((name, None))
            continue
        m = decode_value(name, value)
        fields = (
            m.producer_id, m.producer_epoch, m.timeout_ms, m.state.label, frozenset(m.partitions),
            m.start_ms, m.update_ms, m.last_producer_id, m.next_producer_id, m.client_version,
        )  # fmt: skip
        records.append((name, dict(zip((*LOGGED_FIELDS, *LATER_FIELDS), fields, strict=True))))
    return records


def as_dict(job: Any) -> dict[str, Any]:
    return {
        "name": job.transactional_id,
        "pid": job.producer_id,
        "epoch": job.producer_epoch,
        "committed": job.committed,
        "leadership": job.coordinator_epoch,
        "parts": job.partitions,
        "version": job.transaction_version,
    }


def label_of(attempt: Attempt) -> Any:
    if isinstance(attempt, FenceAttempt):
        return "fence", attempt.found.metadata.transactional_id
    return attempt.token


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_transactions(seed: int) -> None:
    run = Run(seed)
    run.begin()
    for _ in range(STEPS):
        run.step()
