"""Configs with values that nobody should set: refused, or harmless over a restart."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.config.definitions import definition_of
from pybroker_kafka.broker.config.dynamic import check_alteration
from pybroker_kafka.broker.config.ineffective import NO_PROTECTION, PROTECTIONS
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.storage.config_def import ConfigDef
from pybroker_kafka.storage.log_config import TOPIC_CONFIGS, validate_topic_configs
from tests.support.odd_values import DYNAMIC_KEYS, odd_values
from tests.support.processes import BrokerProcess, cpu_seconds, running_broker
from tests.support.wire import WireClient, batch, unique
from tests.wire.test_configs import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    change,
    describe,
    describe_all,
)

VERDICTS = (ErrorCode.NONE, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST)
NO_LEADER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
LONG_TEXT = "x" * 32_000
# They do what they say: with one connection allowed, there is one. Threads change by steps.
APART = ("max.connection", "num.network.threads")
SPIN_SECONDS = 0.5
FIRST_OF_ALL = -20
WAIT_SECONDS = 120.0
EAGER = {"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "1000"}


def known(name: str) -> ConfigDef:
    definition = definition_of(name)
    assert definition is not None
    return definition


@pytest.mark.parametrize("version", [0, 1])
def test_a_long_value_is_an_invalid_config(kafka: WireClient, version: int) -> None:
    """The message of the answer has room for the value's beginning only."""
    topic = kafka.create_topic().name
    key = "message.format.version"
    for text in (LONG_TEXT, "\u00e4" * 16_000, "1" * 32_000):
        result = change(kafka, version, topic, (SET, key, text))
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert key in result.error_message
        assert alter(kafka, version, topic, {key: text}).error_code == ErrorCode.INVALID_CONFIG
        new = CreatableTopic(
            name=unique(),
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=text)],
        )
        (created,) = kafka.call(CreateTopicsRequest(topics=[new])).topics
        assert created.error_code == ErrorCode.INVALID_CONFIG
    for name in (LONG_TEXT, "1" * 32_000):
        assert change(kafka, version, topic, (SET, name, "1")).error_code in VERDICTS
        assert change(kafka, version, topic, (APPEND, name, "1")).error_code in VERDICTS
        assert change(kafka, version, name, (SET, key, "1"), kind=BROKER).error_code in VERDICTS
        unknown = change(kafka, version, name, (SET, key, "1"))
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topic_configs_with_odd_values(kafka: WireClient) -> None:
    """A part of them here; tests/unit/storage has all."""
    topic = kafka.create_topic().name
    for name, definition in TOPIC_CONFIGS.items():
        for position, text in enumerate(odd_values(name, definition.type)[::5]):
            operation = APPEND if position % 7 == 5 else SUBTRACT if position % 7 == 6 else SET
            result = change(kafka, 1, topic, (operation, name, text), validate_only=True)
            assert result.error_code in VERDICTS[:2], (name, text[:50], result)
            if result.error_code == 0 and position % 2:
                result = change(kafka, 1, topic, (operation, name, text))
                assert result.error_code in VERDICTS[:2], "it may not go with the others"
        assert describe_all(kafka, 4, TOPIC, topic).error_code == 0, name
        assert kafka.produce(topic, batch(b"value")).error_code != ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_list_does_not_grow_for_ever(kafka: WireClient) -> None:
    """What is stored must fit into the answer to DescribeConfigs."""
    topic, key = kafka.create_topic().name, "leader.replication.throttled.replicas"
    codes = []
    for first in range(0, 6000, 1000):
        more = ",".join(f"{number}:1" for number in range(first, first + 1000))
        codes.append(change(kafka, 1, topic, (APPEND, key, more)).error_code)
    assert codes[0] == 0
    assert codes[-1] == ErrorCode.INVALID_CONFIG
    assert describe(kafka, topic)[key].value


def test_a_znode_does_not_grow_for_ever(kafka: WireClient) -> None:
    """Beyond jute.maxbuffer ZooKeeper drops the connection of the broker that writes it."""
    made: list[str] = []
    try:
        for number in range(40):
            name = f"plugin.key.{number}"
            result = change(kafka, 1, "", (SET, name, LONG_TEXT), kind=BROKER)
            if result.error_code != 0:
                break
            made.append(name)
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert 20 < len(made) < 40
    finally:
        changes: list[tuple[int, str, str | None]] = [(DELETE, name, None) for name in made]
        assert change(kafka, 1, "", *changes, kind=BROKER).error_code == 0


@pytest.fixture(scope="module")
def odd_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("odd"), EAGER) as broker:
        yield broker


def accepted(definition: ConfigDef, check: Callable[[str], object]) -> list[str]:
    """The values of a key that a broker takes, those that are numbers in their order."""
    taken = []
    for text in odd_values(definition.name, definition.type):
        with contextlib.suppress(KafkaError):
            check(text)
            taken.append(text)
    try:
        return sorted(taken, key=lambda text: float(definition.parse(text)))
    except (TypeError, ValueError):
        return taken


def set_niceness(pids: tuple[int, ...], nice: int) -> None:
    """If the system lets us."""
    for pid in pids:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, pid, nice)


@contextlib.contextmanager
def before_others(*pids: int) -> Iterator[None]:
    """These processes run before all others."""
    set_niceness(pids, FIRST_OF_ALL)
    try:
        yield
    finally:
        set_niceness(pids, 0)


def spins(pid: int) -> bool:
    """Whether a process takes as much CPU time as a loop beside it that takes all it can get.

    One that has work left, on a busy machine, does so for a while: it may settle. Both come before
    others: where the loop gets a tenth of a core, what timers cost a process looks like half of it.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    with before_others(pid, os.getpid()):
        while time.monotonic() < deadline:
            before, own = cpu_seconds(pid), time.process_time()
            while time.process_time() - own < SPIN_SECONDS:
                pass
            if cpu_seconds(pid) - before < SPIN_SECONDS / 2:
                return False
    return True


def leaders_answer(kafka: WireClient, topic: str) -> ErrorCode:
    """To a produce; just after a restart nobody leads."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (answer := ErrorCode(kafka.produce(topic, batch(b"value")).error_code)) in NO_LEADER:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return answer


def works(kafka: WireClient) -> ErrorCode:
    """A new topic gets a leader, and the leader answers."""
    topic = kafka.create_topic(cleanup_policy="compact")
    return ErrorCode(kafka.produce(topic.name, batch(b"value")).error_code)


@pytest.mark.nightly
def test_the_extremes_of_what_is_accepted_survive_a_restart(odd_broker: BrokerProcess) -> None:
    """All keys together: their smallest values, then their largest, then those in the middle."""
    keys = [
        name
        for name in DYNAMIC_KEYS
        if not name.startswith(APART) and name not in {*PROTECTIONS, *NO_PROTECTION}
    ]
    config = KafkaConfig({"zookeeper.connect": "localhost", **EAGER})
    choices = {}
    for name in keys:

        def check(text: str, name: str = name) -> None:
            check_alteration(config, {}, {name: text}, per_broker=False)

        if values := accepted(known(name), check):
            choices[name] = values
    assert len(choices) > 45
    for position in (0, -1, 0.5):
        with WireClient(odd_broker.bootstrap) as kafka:
            for name, values in choices.items():
                index = position if isinstance(position, int) else int(position * len(values))
                # What does not go with the others is refused; the others stay.
                result = change(kafka, 1, "", (SET, name, values[index]), kind=BROKER)
                assert result.error_code in VERDICTS
        odd_broker.kill()
        odd_broker.start()
        with WireClient(odd_broker.bootstrap) as kafka:
            assert works(kafka) != ErrorCode.UNKNOWN_SERVER_ERROR
            assert not spins(odd_broker.pid)
            assert describe_all(kafka, 4, BROKER, "1").error_code == 0
            deletions: list[tuple[int, str, str | None]] = [(DELETE, n, None) for n in choices]
            assert change(kafka, 1, "", *deletions, kind=BROKER).error_code == 0
            wait_for_defaults(kafka, choices)
            assert works(kafka) is ErrorCode.NONE
    assert "Traceback" not in odd_broker.log_text


def validate_topic_config(name: str, text: str) -> None:
    validate_topic_configs({name: text}, {})


def test_topics_with_extreme_configs_survive_a_restart(odd_broker: BrokerProcess) -> None:
    """One for the smallest, one for the largest and one for a middle value of each key."""
    topics = []
    with WireClient(odd_broker.bootstrap) as kafka:
        for name, definition in TOPIC_CONFIGS.items():
            values = accepted(definition, partial(validate_topic_config, name))
            for text in {values[0], values[-1], values[len(values) // 2]}:
                made = kafka.create_topic().name
                assert change(kafka, 1, made, (SET, name, text)).error_code == 0
                topics.append(made)
        for topic in topics:
            kafka.produce(topic, batch(b"value", timestamp=int(time.time() * 1000)))
    odd_broker.kill()
    odd_broker.start()
    with WireClient(odd_broker.bootstrap) as kafka:
        for topic in topics:
            answer = leaders_answer(kafka, topic)
            assert answer in (
                ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_ENOUGH_REPLICAS,
                ErrorCode.INVALID_TIMESTAMP, ErrorCode.RECORD_LIST_TOO_LARGE,
            ), topic  # fmt: skip
        assert not spins(odd_broker.pid)
    assert "Traceback" not in odd_broker.log_text


def wait_for_defaults(kafka: WireClient, names: dict[str, list[str]]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        configs = describe(kafka, "1", *names, kind=BROKER)
        if all(configs[name].config_source >= 4 for name in names if name in configs):
            return
        time.sleep(0.02)
    raise AssertionError("the deleted configs are still there")
