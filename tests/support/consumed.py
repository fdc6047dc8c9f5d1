"""What confluent-kafka hands over, in the types that it has once there is no error.

Its `Message` is the result of a consume, an error, and the report of a delivery at once, so each of
its methods may return None. The tests look at messages that are records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import KafkaError, Message


class Consumed(NamedTuple):
    """A record that was consumed, with a value that is not null."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes


def consumed(message: Message) -> Consumed:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return Consumed(topic, partition, offset, message.key(), value_of(message))


def value_of(message: Message) -> bytes:
    """The value alone; all that the report of a delivery is sure to have."""
    value = message.value()
    assert value is not None
    return value


def partition_of(message: Message) -> int:
    """Of a record, or of the end of a partition."""
    partition = message.partition()
    assert partition is not None
    return partition


def error_of(message: Message) -> KafkaError:
    """The error of a message that is one."""
    error = message.error()
    assert error is not None
    return error


def collect_errors(errors: list[KafkaError]) -> Callable[[KafkaError | None, Message], None]:
    """A delivery report that keeps what went wrong."""

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            errors.append(error)

    return delivered
