"""The rules of harmed requests: the n-th of an API and client id, and the harm; pure.

A rule counts the requests that match it, each rule for itself and each broker for itself, and takes
`times` of them from the `nth` on. The first rule that takes a request decides; the others have
counted it, too.

Like: `rd_kafka_mock_push_request_errors` of librdkafka and `Cluster.ControlKey` of kfake, which
are mock clusters; here a real broker answers all else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode


class Harm(StrEnum):
    """The harm to a request."""

    FAIL = "fail"  # answered with an error, and not carried out
    DROP = "drop"  # neither carried out nor answered
    CLOSE = "close"  # its connection is closed instead
    DELAY = "delay"  # carried out later
    LOSE_ANSWER = "lose-answer"  # carried out, and its connection closed instead of the answer


@dataclass(slots=True)
class Rule:
    """`client_id` None: all clients. `times` None: all from the `nth` on, which counts from 1."""

    number: int
    api: ApiKey
    harm: Harm
    client_id: str | None = None
    nth: int = 1
    times: int | None = 1
    error: ErrorCode = ErrorCode.NONE
    delay_seconds: float = 0.0
    seen: int = 0
    taken: int = 0

    def takes(self, client_id: str) -> bool:
        """Count this request, if its client matches; returns whether it is to be harmed."""
        if self.client_id is not None and self.client_id != client_id:
            return False
        self.seen += 1
        is_chosen = self.seen >= self.nth and (
            self.times is None or self.seen < self.nth + self.times
        )
        self.taken += is_chosen
        return is_chosen


class Interceptions:
    """The rules of one broker."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def add(self, rule: Rule) -> None:
        self._rules[rule.number] = rule

    def remove(self, number: int) -> int:
        """Remove a rule; the number of requests it has taken, 0 for an unknown one."""
        rule = self._rules.pop(number, None)
        return 0 if rule is None else rule.taken

    def taken(self, number: int) -> int:
        rule = self._rules.get(number)
        return 0 if rule is None else rule.taken

    def names(self, api: ApiKey) -> bool:
        """Whether a rule is for requests of this API."""
        return any(rule.api is api for rule in self._rules.values())

    def decide(self, api: ApiKey, client_id: str) -> Rule | None:
        """Count a request; the rule that takes it, if any does."""
        fitting = [rule for rule in self._rules.values() if rule.api is api]
        taking = [rule for rule in fitting if rule.takes(client_id)]
        return taking[0] if taking else None
