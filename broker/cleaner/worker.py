"""The cleaner's own process: `process` runs `python -m pybroker_kafka.broker.cleaner.worker`.

Cleaning is all CPU, and a thread would take the interpreter from the broker's loop for milliseconds
at a time. The worker reads plans as JSON lines from its standard input and writes results as JSON
lines to its standard output. It yields to every other process, waits for the throttle, and ends
when its input ends: with its broker, also after a crash.

In: `{"clean": plan, "rate": bytes a second or null}`, `{"rate": ...}`, `{"abort": true}`.
Out: `{"group": ...}` for each new segment that lies ready, and at last one of `{"done": offset,
"stats": ...}`, `{"aborted": true}`, `{"failed": why, "io": whether the disk is to blame}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from dataclasses import asdict
from typing import Any

from ...storage.cleaner.cleaner import Cleaner, CleaningAborted, remove_leftovers
from ...storage.cleaner.plan import CleaningPlan
from ...storage.files import Files, is_out_of_descriptors
from ..resources.priority import give_way

RECEIVE_BYTES = 1 << 16
MAX_SLEEP_SECONDS = 0.3

Message = dict[str, Any]


class Worker:
    """Reads messages between two chunks of work, and never waits for one while there is work."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._held = b""
        self._messages: list[Message] = []
        self._producers: list[list[Any]] = []  # of the next plan, in pieces
        self._rate: float | None = None
        self._free_at = 0.0  # when the throttle lets the next bytes through

    # Messages

    def _receive(self, timeout_seconds: float | None) -> bool:
        """Read the messages that have come; False once the broker is gone."""
        if not select.select([self._source], [], [], timeout_seconds)[0]:
            return True
        data = os.read(self._source, RECEIVE_BYTES)
        if not data:
            return False
        *lines, self._held = (self._held + data).split(b"\n")
        self._messages += [json.loads(line) for line in lines]
        return True

    def _send(self, message: Message) -> None:
        data = memoryview(json.dumps(message).encode() + b"\n")
        while data:
            data = data[os.write(self._sink, data) :]

    # Work

    def run(self) -> None:
        while True:
            while not self._messages:
                if not self._receive(None):
                    return
            message = self._messages.pop(0)
            if "rate" in message:
                self._rate = message["rate"]
            if "producers" in message:
                self._producers.append(message["producers"])
            if "clean" in message:
                producers, self._producers = self._producers, []
                self._clean(CleaningPlan.from_json(message["clean"], producers))

    def _clean(self, plan: CleaningPlan) -> None:
        files = Files()
        try:
            self._send(self._clean_log(files, plan))
            return
        except CleaningAborted:
            answer: Message = {"aborted": True}
        except OSError as error:
            if is_out_of_descriptors(error):
                answer = {"aborted": True}  # for now
            else:
                answer = {"failed": str(error), "io": True}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}", "io": False}
        with contextlib.suppress(OSError):  # the directory may be gone
            remove_leftovers(files, plan.directory)
        self._send(answer)

    def _clean_log(self, files: Files, plan: CleaningPlan) -> Message:
        started = time.perf_counter()
        cleaner = Cleaner(files, plan, self.pace)
        end_offset = cleaner.build_map()
        stats = cleaner.stats
        stats.index_seconds = time.perf_counter() - started
        for group in cleaner.clean_groups(end_offset):
            self._send({"group": asdict(group)})
        stats.elapsed_seconds = time.perf_counter() - started
        return {"done": end_offset, "stats": asdict(stats)}

    def pace(self, count: int) -> None:
        """`count` bytes were read or written: wait for the throttle, then read messages."""
        self._receive_orders(0)
        if self._rate is None:
            return
        now = time.monotonic()
        self._free_at = max(self._free_at, now) + count / self._rate
        while (wait := self._free_at - time.monotonic()) > 0 and self._rate is not None:
            self._receive_orders(min(wait, MAX_SLEEP_SECONDS))

    def _receive_orders(self, timeout_seconds: float) -> None:
        if not self._receive(timeout_seconds):
            raise CleaningAborted
        while self._messages:
            message = self._messages.pop(0)
            if "rate" in message:
                self._rate = message["rate"]
                self._free_at = 0.0
            if "abort" in message:
                raise CleaningAborted


def main() -> None:
    give_way()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        Worker(sys.stdin.fileno(), sys.stdout.fileno()).run()


if __name__ == "__main__":
    main()
