"""The thread that waits for a call runs the callbacks that came before its end."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from pybroker_kafka.client.hosted.blocking_consumer import BlockingConsumer


def test_a_call_returns_after_the_callbacks_before_its_end() -> None:
    consumer: Any = BlockingConsumer.__new__(BlockingConsumer)
    consumer._user, consumer._inbox = threading.Lock(), SimpleQueue()
    told: list[str] = []
    consumer._inbox.put(lambda: told.append("committed"))
    ended: Future[str] = Future()
    ended.set_result("done")
    assert (consumer._wait(ended), told) == ("done", ["committed"])


def test_the_end_of_a_call_that_was_given_up_is_no_callback() -> None:
    consumer: Any = BlockingConsumer.__new__(BlockingConsumer)
    consumer._user, consumer._inbox = threading.Lock(), SimpleQueue()
    consumer._inbox.put(Future())
    ended: Future[str] = Future()
    ended.set_result("done")
    assert consumer._wait(ended) == "done"
