"""What the harnesses of the group and the transaction coordinator share: calls, passing time.

A `Call` counts the answers of one request, so that a second one fails the test.
"""

from __future__ import annotations

from typing import Any, Protocol


class Call:
    """One request and its answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answers: list[Any] = []

    @property
    def is_waiting(self) -> bool:
        return not self.answers

    @property
    def result(self) -> Any:
        assert self.answers, f"{self.name} was not answered"
        return self.answers[0]

    def answer(self, result: Any) -> None:
        assert not self.answers, f"{self.name} was answered twice"
        self.answers.append(result)


class Clocked(Protocol):
    """A harness with a virtual clock around a machine."""

    now_ms: int
    machine: Any

    def perform(self) -> None: ...


def pass_time(harness: Clocked, milliseconds: int) -> None:
    """Let time pass, firing every timer at its own time."""
    end_ms = harness.now_ms + milliseconds
    while (deadline_ms := harness.machine.next_deadline_ms()) is not None:
        if deadline_ms > end_ms:
            break
        harness.now_ms = max(harness.now_ms, deadline_ms)
        harness.machine.tick(harness.now_ms)
        harness.perform()
    harness.now_ms = end_ms
