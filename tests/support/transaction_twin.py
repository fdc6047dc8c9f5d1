"""The dumb twin of the transaction coordinator: Kafka's rules over plain dictionaries.

One partition of the log. It is told what the machine is told, and says what must come out: answers,
appends (as what they mean), marker jobs. It has no classes for states or transitions, and no code
of the machine: an id is a dictionary, a transition the dictionary that it will be, the log a list.
`level` is the finalized transaction.version; requests have the version of their client.

What it leaves to the test: order of calls, outcomes of appends, answers of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pybroker_kafka.protocol.errors import ErrorCode

E = ErrorCode

Id = dict[str, Any]
Change = dict[str, Any]  # fields that an id gets when the log has them

MAX_EPOCH = 32767
RETRY_MS = 50
DONE = {E.NONE, E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.UNSUPPORTED_VERSION}
FENCED = {E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED}
TRANSLATED = {
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: E.COORDINATOR_NOT_AVAILABLE,
    E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
}
LOGGED_FIELDS = ("pid", "epoch", "timeout", "state", "parts", "start", "update")
LATER_FIELDS = {"last_pid": -1, "next_pid": -1, "version": 0}  # and what they are before version 1


class Twin:
    def __init__(self, *, max_timeout_ms: int, expiration_ms: int) -> None:
        self.max_timeout_ms = max_timeout_ms
        self.expiration_ms = expiration_ms
        self.ids: dict[str, Id] = {}
        self.leadership = 0  # its epoch; 0 while there is none
        self.is_loading = False
        # What must have come out, in order, since the test last looked.
        self.answers: list[tuple[Any, Any]] = []
        self.appends: list[dict[str, Any]] = []
        self.jobs: list[dict[str, Any]] = []
        # A label of who waits for a producer id, and what happens when it comes, or an error.
        self.allocations: list[tuple[Any, Callable[[int | ErrorCode, int], None]]] = []
        self.level = 0
        self.retries: list[tuple[int, int, Callable[[int], None]]] = []
        self.ending: dict[str, tuple[Id, Change]] = {}
        self._count = 0

    def unavailable(self) -> ErrorCode:
        if self.is_loading:
            return E.COORDINATOR_LOAD_IN_PROGRESS
        return E.NONE if self.leadership else E.NOT_COORDINATOR

    # Requests: each ends in an answer or an append

    def init(
        self, call: Any, name: str, timeout: int, expected: tuple[int, int] | None, now: int,
        new_pid: int | None = None,
    ) -> None:  # fmt: skip
        def say(error: ErrorCode, pid: int = -1, epoch: int = -1) -> None:
            self.answers.append((call, (error, pid, epoch)))

        def allocated(new_pid: int | ErrorCode, now: int) -> None:
            if isinstance(new_pid, ErrorCode):
                say(new_pid)
            else:
                self.init(call, name, timeout, expected, now, new_pid)

        if not 0 < timeout <= self.max_timeout_ms:
            return say(E.INVALID_TRANSACTION_TIMEOUT)
        if self.unavailable():
            return say(self.unavailable())
        i = self.ids.get(name)
        if i is None:
            if new_pid is None:
                self.allocations.append((call, allocated))
                return None
            i = self.ids[name] = {
                "name": name, "pid": new_pid, "epoch": -1, "last_pid": -1, "last_epoch": -1,
                "timeout": timeout, "state": "Empty", "parts": frozenset(), "start": -1,
                "update": now, "pending": None, "fencing": False, "next_pid": -1, "version": 0,
            }  # fmt: skip
        if i["pending"]:
            return say(E.CONCURRENT_TRANSACTIONS)
        if expected and i["epoch"] != -1 and is_stranger(i, *expected):
            return self.prove(i, E.PRODUCER_FENCED, say)
        if i["state"] in ("PrepareCommit", "PrepareAbort"):
            return say(E.CONCURRENT_TRANSACTIONS)
        if i["state"] == "Ongoing":
            self.fence(i, now, lambda error: say(error or E.CONCURRENT_TRANSACTIONS))
            return None
        last = None if expected is None else expected[1]
        is_exhausted = i["epoch"] >= MAX_EPOCH - 1
        if is_exhausted and last in (None, i["epoch"]) and new_pid is None:
            self.allocations.append((call, allocated))
            return None
        new = next_producer(i, last, new_pid)
        if new is None:
            return self.prove(i, E.PRODUCER_FENCED, say)
        change = {"state": "Empty", "timeout": timeout, "update": now, "parts": frozenset(),
                  "last_pid": i["pid"], **new}  # fmt: skip

        def done(error: ErrorCode, _: int) -> None:
            say(E.NONE, change["pid"], change["epoch"]) if not error else say(error)

        return self.log(i, change, done, start=-1)

    def check(self, name: str, pid: int) -> Id | ErrorCode:
        if self.unavailable():
            return self.unavailable()
        i = self.ids.get(name)
        return E.INVALID_PRODUCER_ID_MAPPING if i is None or i["pid"] != pid else i

    def add(
        self, call: Any, name: str, pid: int, epoch: int, parts: Iterable[Any], now: int
    ) -> None:
        def say(error: ErrorCode) -> None:
            self.answers.append((call, error))

        i = self.check(name, pid)
        if isinstance(i, ErrorCode):
            say(i)
        elif i["epoch"] != epoch:
            self.prove(i, E.PRODUCER_FENCED, say)
        elif i["pending"] or i["state"] in ("PrepareCommit", "PrepareAbort"):
            say(E.CONCURRENT_TRANSACTIONS)
        elif i["state"] != "Ongoing" or set(parts) - i["parts"]:
            start = i["start"] if i["state"] == "Ongoing" else now
            change = {"state": "Ongoing", "start": start, "update": now, "version": 0,
                      "parts": frozenset(i["parts"]) | frozenset(parts)}  # fmt: skip
            self.log(i, change, lambda error, _: say(error))
        else:
            self.prove(i, E.NONE, say)

    def add_2(
        self, call: Any, name: str, pid: int, epoch: int, parts: Iterable[Any], now: int
    ) -> None:
        """Of a client of version 2."""

        def say(error: ErrorCode) -> None:
            self.answers.append((call, error))

        i = self.ids.get(name)
        if self.unavailable():
            say(self.unavailable())
        elif i is None:
            say(E.INVALID_PRODUCER_ID_MAPPING)
        elif i["pending"]:
            say(E.CONCURRENT_TRANSACTIONS)
        elif i["pid"] != pid:
            say(E.INVALID_PRODUCER_ID_MAPPING)
        elif i["epoch"] != epoch:
            self.prove(i, E.PRODUCER_FENCED, say)
        elif i["state"] in ("PrepareCommit", "PrepareAbort"):
            say(E.CONCURRENT_TRANSACTIONS)
        elif i["state"] == "Ongoing" and not set(parts) - i["parts"]:
            say(E.NONE)
        else:
            start = i["start"] if i["state"] == "Ongoing" else now
            change = {
                "state": "Ongoing", "start": start, "update": now, "version": 2, "last_pid": pid,
                "parts": frozenset(i["parts"]) | frozenset(parts),
            }  # fmt: skip
            self.log(i, change, lambda error, _: say(error))

    def end_2(
        self, call: Any, name: str, pid: int, epoch: int, now: int, *, committed: bool,
        new_pid: int | None = None,
    ) -> None:  # fmt: skip
        """Of a client of version 2: the table at TransactionCoordinator.endTransaction."""

        def say(error: ErrorCode, pid: int = -1, epoch: int = -1) -> None:
            self.answers.append((call, (error, pid, epoch)))

        def allocated(new_pid: int | ErrorCode, now: int) -> None:
            if isinstance(new_pid, ErrorCode):
                say(new_pid)
            else:
                self.end_2(call, name, pid, epoch, now, committed=committed, new_pid=new_pid)

        i = self.ids.get(name)
        if self.unavailable():
            return say(self.unavailable())
        if i is None:
            return say(E.INVALID_PRODUCER_ID_MAPPING)
        if i["pending"]:
            return say(E.CONCURRENT_TRANSACTIONS)
        error = verdict_2(i, pid, epoch, committed)
        if error is E.NONE:
            return say(E.NONE, i["pid"], i["epoch"])
        if error in (E.PRODUCER_FENCED, E.INVALID_TXN_STATE):
            return self.prove(i, error, say)
        if error is not None:
            return say(error)
        if i["epoch"] >= MAX_EPOCH - 1 and new_pid is None:
            self.allocations.append((call, allocated))
            return None

        def done(error: ErrorCode, _: int) -> None:
            if error:
                say(error)
            else:
                say(error, *self.after(i))

        return self.decide_2(i, now, committed, new_pid, done)

    def end(self, call: Any, name: str, pid: int, epoch: int, now: int, *, committed: bool) -> None:
        def say(error: ErrorCode) -> None:
            self.answers.append((call, error))

        i = self.check(name, pid)
        suffix = "Commit" if committed else "Abort"
        if isinstance(i, ErrorCode):
            say(i)
        elif i["epoch"] != epoch:
            self.prove(i, E.PRODUCER_FENCED, say)
        elif i["pending"] or i["state"] == "Prepare" + suffix:
            say(E.CONCURRENT_TRANSACTIONS)
        elif i["state"] == "Ongoing":
            self.decide(i, now, committed, lambda error, _: say(error))
        elif i["state"] != "Complete" + suffix:
            self.prove(i, E.INVALID_TXN_STATE, say)
        else:
            self.prove(i, E.NONE, say)

    # Ending

    def fence(self, i: Id, now: int, say: Callable[[ErrorCode], None]) -> None:
        if self.level >= 2:
            self.fence_2(i, now, say)
            return
        if not i["fencing"]:
            i["epoch"] = min(i["epoch"] + 1, MAX_EPOCH)
        i["last_epoch"] = -1
        i["fencing"] = True

        self.decide(i, now, False, lambda error, _: say(error))

    def fence_2(
        self, i: Id, now: int, say: Callable[[ErrorCode], None], new_pid: int | None = None
    ) -> None:
        leadership = self.leadership

        def allocated(new_pid: int | ErrorCode, now: int) -> None:
            if isinstance(new_pid, ErrorCode):
                say(new_pid)
            elif leadership != self.leadership:
                say(E.NOT_COORDINATOR)
            elif i["state"] != "Ongoing" or i["pending"]:
                say(E.CONCURRENT_TRANSACTIONS)
            else:
                self.fence_2(i, now, say, new_pid)

        if i["epoch"] >= MAX_EPOCH - 1 and new_pid is None:
            self.allocations.append((("fence", i["name"]), allocated))
        else:
            self.decide_2(i, now, False, new_pid, lambda error, _: say(error))

    def after(self, i: Id) -> tuple[int, int]:
        """Producer id and epoch when the transaction that is decided is over."""
        has_next = i["version"] == 2 and i["next_pid"] >= 0
        return (i["next_pid"], 0) if has_next else (i["pid"], i["epoch"])

    def decide_2(self, i: Id, now: int, committed: bool, new_pid: int | None, done: Any) -> None:
        is_exhausted = i["epoch"] >= MAX_EPOCH - 1
        change = {
            "state": "PrepareCommit" if committed else "PrepareAbort", "update": now, "version": 2,
            "epoch": min(i["epoch"] + 1, MAX_EPOCH), "last_epoch": i["epoch"],
            "last_pid": i["pid"], "next_pid": new_pid if is_exhausted else -1,
            "start": i["start"] if i["state"] == "Ongoing" else now,
        }  # fmt: skip
        self.log_decision(i, change, done)

    def decide(self, i: Id, now: int, committed: bool, done: Any) -> None:
        state = "PrepareCommit" if committed else "PrepareAbort"
        self.log_decision(i, {"state": state, "update": now, "version": 0}, done)

    def log_decision(self, i: Id, change: Change, done: Any) -> None:
        def decided(error: ErrorCode, now: int) -> None:
            done(error, now)
            if not error:
                self.send(i, now)

        self.log(i, change, decided)

    def send(self, i: Id, now: int) -> None:
        committed = i["state"] == "PrepareCommit"
        i["fencing"] = False
        change: dict[str, Any] = {
                  "state": "CompleteCommit" if committed else "CompleteAbort", "update": now,
                  "parts": frozenset(), "next_pid": -1}  # fmt: skip
        if i["version"] == 2:
            change["last_pid"] = i["pid"]
            change["pid"], change["epoch"] = self.after(i)
        i["pending"] = change["state"]
        self.ending[i["name"]] = (i, change)
        if i["parts"]:
            self.jobs.append({
                "name": i["name"], "pid": i["pid"], "epoch": i["epoch"],
                "committed": committed, "leadership": self.leadership, "parts": i["parts"],
                "version": i["version"],
            })  # fmt: skip
        else:
            self.finish(i["name"], now)

    def finish(self, name: str, now: int) -> None:
        i, change = self.ending.pop(name)
        leadership = self.leadership

        def done(error: ErrorCode, now: int) -> None:
            if error and self.leadership == leadership and error != E.NOT_COORDINATOR:
                i["pending"] = change["state"]
                self.later(now, again)

        def again(now: int) -> None:
            if self.leadership == leadership:
                i["pending"] = None
                self.log(i, change, done)

        i["pending"] = None
        self.log(i, change, done)

    def markers(self, job: dict[str, Any], results: dict[Any, ErrorCode], now: int) -> None:
        found = self.ending.get(job["name"])
        if found is None or job["leadership"] != self.leadership:
            return
        i = found[0]
        if any(error in FENCED for error in results.values()):
            # Which others were counted before it depends on the order: the test avoids that.
            del self.ending[job["name"]]
            return
        written = {p for p in job["parts"] if results.get(p, E.REQUEST_TIMED_OUT) in DONE}
        i["parts"] -= written
        rest = job["parts"] - written
        if rest:

            def again(_: int) -> None:
                if self.leadership == job["leadership"] and job["name"] in self.ending:
                    self.jobs.append({**job, "parts": rest})

            self.later(now, again)
        if not i["parts"]:
            self.finish(job["name"], now)

    # The log

    def log(self, i: Id, change: Change, done: Any, start: int | None = None) -> None:
        assert i["pending"] is None
        i["pending"] = change["state"]
        value = self.value_of({**i, **change, "last_pid": i["pid"]})
        if start is not None:
            value["start"] = start
        leadership = self.leadership

        def answered(log_error: ErrorCode, now: int) -> None:
            error = TRANSLATED.get(log_error, log_error)
            if leadership != self.leadership or not self.leadership or self.is_loading:
                error = error or self.unavailable() or E.NOT_COORDINATOR
            else:
                i["pending"] = None
                if not error:
                    i.update(change)
            done(error, now)

        self.appends.append({"records": [(i["name"], value)], "answered": answered})

    def value_of(self, i: Id) -> dict[str, Any]:
        """What a record of it has."""
        value = {field: i[field] for field in LOGGED_FIELDS}
        is_later = self.level >= 1 or i["version"] == 2
        return value | ({field: i[field] for field in LATER_FIELDS} if is_later else LATER_FIELDS)

    def prove(self, i: Id, answer: ErrorCode, say: Any) -> None:
        """What is known goes into the log again, if it is what the log has; then the answer."""
        if i["fencing"]:
            say(E.CONCURRENT_TRANSACTIONS)
            return
        if i["pending"] or i["state"].startswith("Prepare") or i["epoch"] == -1:
            say(answer)
            return
        value = self.value_of(i)
        if i["state"] == "Empty":
            value["start"] = -1
        leadership = self.leadership

        def answered(log_error: ErrorCode, _: int) -> None:
            error = TRANSLATED.get(log_error, log_error)
            if leadership != self.leadership or not self.leadership or self.is_loading:
                error = error or self.unavailable() or E.NOT_COORDINATOR
            say(error or answer)

        self.appends.append({"records": [(i["name"], value)], "answered": answered})

    def load(self, log: Iterable[dict[str, Any]], leadership: int, now: int) -> None:
        """Take over, with what is in the log."""
        self.leadership, self.is_loading, self.ending = leadership, False, {}
        values: dict[str, Any] = {}
        for append in log:
            for name, value in append["records"]:
                values.pop(name, None) if value is None else values.update({name: value})
        self.ids = {
            name: {**value, "name": name, "last_epoch": -1, "pending": None, "fencing": False}
            for name, value in values.items()
        }  # fmt: skip
        for i in self.ids.values():
            if i["state"].startswith("Prepare"):
                self.send(i, now)

    def unload(self) -> None:
        self.leadership, self.is_loading, self.ids, self.ending = 0, False, {}, {}

    # Time

    def later(self, now: int, action: Callable[[int], None]) -> None:
        self._count += 1
        self.retries.append((now + RETRY_MS, self._count, action))

    def retry(self, now: int) -> None:
        due = sorted(entry for entry in self.retries if entry[0] <= now)
        self.retries = [entry for entry in self.retries if entry[0] > now]
        for _, _, action in due:
            action(now)

    def abort_timed_out(self, now: int) -> None:
        for i in self.ids.values():
            is_open = i["state"] == "Ongoing" and not i["pending"]
            if is_open and (i["fencing"] or i["start"] + i["timeout"] < now):
                self.fence(i, now, lambda _: None)

    def expire(self, now: int) -> None:
        old = [
            i for i in self.ids.values()
            if not i["pending"] and i["state"] in ("Empty", "CompleteCommit", "CompleteAbort")
            and i["update"] <= now - self.expiration_ms
        ]  # fmt: skip
        if not old:
            return
        for i in old:
            i["pending"] = "Dead"

        def answered(error: ErrorCode, _: int) -> None:
            for i in old:
                i["pending"] = None
                if not error and self.ids.get(i["name"]) is i:
                    del self.ids[i["name"]]

        self.appends.append({"records": [(i["name"], None) for i in old], "answered": answered})


def verdict_2(i: Id, pid: int, epoch: int, committed: bool) -> ErrorCode | None:
    """EndTxn in version 2: an error, NONE for a retry; None: the transaction is to be ended."""
    of_before = i["last_pid"] == pid and epoch == MAX_EPOCH - 1 and i["epoch"] == 0
    if i["pid"] != pid and not of_before:
        return E.INVALID_PRODUCER_ID_MAPPING
    raised, current = i["epoch"] == epoch + 1, i["epoch"] == epoch
    kind = i["state"].removesuffix("Commit").removesuffix("Abort")
    is_same = i["state"].endswith("Commit" if committed else "Abort")
    if kind == "Prepare":
        if not raised:
            return E.PRODUCER_FENCED
        return E.CONCURRENT_TRANSACTIONS if is_same else E.INVALID_TXN_STATE
    if kind == "Complete" and (raised or of_before):
        return E.NONE if is_same else E.INVALID_TXN_STATE
    if not current:
        return E.PRODUCER_FENCED
    if committed and i["state"] != "Ongoing":
        return E.INVALID_TXN_STATE
    return E.UNKNOWN_SERVER_ERROR if committed and epoch == MAX_EPOCH else None


def is_stranger(i: Id, pid: int, epoch: int) -> bool:
    """Neither who has the id nor who had it before it got a new producer id."""
    return pid != i["pid"] and (pid != i["last_pid"] or epoch < MAX_EPOCH - 1)


def next_producer(i: Id, last: int | None, new_pid: int | None) -> Change | None:
    """Producer id and epochs of who starts and says that it had epoch `last`; None: fenced."""
    pid, epoch = i["pid"], i["epoch"]
    if epoch >= MAX_EPOCH - 1 and last in (None, epoch):
        return {"pid": new_pid, "epoch": 0, "last_epoch": -1 if last is None else epoch}
    if last is None:
        return {"pid": pid, "epoch": epoch + 1, "last_epoch": -1}
    if epoch in (-1, last):
        return {"pid": pid, "epoch": epoch + 1, "last_epoch": epoch}
    if last == i["last_epoch"]:
        return {"pid": pid, "epoch": epoch, "last_epoch": last}
    return None
