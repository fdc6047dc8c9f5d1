"""Which configs may be set: our verdict beside Apache Kafka's, value by value.

Both brokers are asked about every dynamic key of a broker, as the default of all and of one broker,
and about every key of a topic; without writing (`validate_only`), and then some that depend on each
other for real. Where the verdicts differ, `reason` says why.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker_kafka.broker.config.definitions import base_key, definition_of
from pybroker_kafka.broker.config.ineffective import PROTECTIONS
from pybroker_kafka.broker.config.tables import groups4
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.storage.topic_configs import TOPIC_CONFIGS
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.odd_values import DYNAMIC_KEYS, odd_values
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient
from tests.wire.test_configs import (
    APPEND,
    BROKER,
    DELETE,
    FROM_BROKER,
    FROM_DEFAULT_BROKER,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    change,
    describe,
)

# Without those of Kafka 4 and our own, of which 3.9 knows nothing.
KEYS = tuple(
    name
    for name in DYNAMIC_KEYS
    if name not in {key.name for key in groups4.DEFINITIONS} and not name.startswith("pybroker.")
)

pytestmark = pytest.mark.timeout(600)

TOPIC_NAME = "odd"
ID = "1"
CONFIG = {"password.encoder.secret": "of-both"}
WAIT_SECONDS = 120.0
SHOWN_CHARACTERS = 60
NONE, INVALID_CONFIG, INVALID_REQUEST = (
    ErrorCode.NONE, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST,
)  # fmt: skip


# Of the listener that is open, and of one that may come.
OF_LISTENERS = tuple(
    f"listener.name.{listener}.{name}"
    for listener in ("plaintext", "elsewhere")
    for name in (
        *(name for name in KEYS if name.startswith(("ssl.", "sasl."))),
        "max.connections", "max.connection.creation.rate", "num.network.threads",
        "principal.builder.class", "plain.sasl.jaas.config", "scram-sha-512.sasl.jaas.config",
        "connections.max.reauth.ms",
        "plain.connections.max.reauth.ms", "ssl.allow.dn.changes", "sasl.server.max.receive.size",
    )
)  # fmt: skip

Change = tuple[int, str, str | None]


class Pair(NamedTuple):
    """A connection to either broker."""

    kafka: WireClient
    ours: WireClient


class Question(NamedTuple):
    kind: int
    resource: str
    name: str
    text: str


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """One Apache Kafka broker and one of ours, each over a ZooKeeper of its own."""
    kafka_jars()
    place: Path = tmp_path_factory.mktemp("verdicts")
    with zookeeper_process(place / "a") as theirs, zookeeper_process(place / "b") as own:
        brokers = [
            ApacheKafkaProcess(place / "a", theirs, CONFIG),
            BrokerProcess(place / "b", own, CONFIG),
        ]
        try:
            for broker in brokers:
                broker.launch()
            for broker in brokers:
                broker.wait_until_ready()
            with WireClient(brokers[0].bootstrap) as a, WireClient(brokers[1].bootstrap) as b:
                for client in (a, b):
                    wait_for_the_controller(client)
                    client.create_topic(name=TOPIC_NAME)
                yield Pair(a, b)
        finally:
            for broker in brokers:
                broker.kill()


def wait_for_the_controller(client: WireClient) -> None:
    """Until it has told Apache Kafka's broker that it is alive; ours is not ready before."""
    until(lambda: client.call(MetadataRequest(topics=[])).brokers)


def verdict(client: WireClient, question: Question) -> ErrorCode:
    kind, resource, name, text = question
    result = change(client, 1, resource, (SET, name, text), kind=kind, validate_only=True)
    return ErrorCode(result.error_code)


def questions(every: int) -> Iterator[Question]:
    """Each `every`th of all, every key among them."""
    for name in KEYS:
        definition = definition_of(name)
        assert definition is not None
        for position, text in enumerate(odd_values(name, definition.type)):
            if position % every == len(name) % every:
                yield Question(BROKER, "", name, text)
            if (position + 1) % every == len(name) % every:
                yield Question(BROKER, ID, name, text)
    for name in OF_LISTENERS:
        definition = definition_of(name)
        assert definition is not None
        for position, text in enumerate(odd_values(name, definition.type)):
            if position % every == len(name) % every:
                yield Question(BROKER, ID, name, text)
    for name, definition in TOPIC_CONFIGS.items():
        for position, text in enumerate(odd_values(name, definition.type)):
            if position % every == len(name) % every:
                yield Question(TOPIC, TOPIC_NAME, name, text)


# Why verdicts differ

LISTENERS = ("listeners", "advertised.listeners", "listener.security.protocol.map")
RATIOS = ("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio")


def _protects(question: Question) -> bool:
    base = base_key(question.name)
    return question.kind == BROKER and base is not None and base.name in PROTECTIONS


REASONS: dict[str, Callable[[Question, ErrorCode, ErrorCode], bool]] = {
    "security that would have no effect here is not promised": lambda question, kafka, ours: (
        _protects(question) and (kafka, ours) == (NONE, INVALID_REQUEST)
    ),
    "Apache Kafka takes it, fails to apply it, and does not start again": lambda question, *codes: (
        question.name == "log.flush.interval.ms" and codes == (NONE, INVALID_REQUEST)
    ),
    "Apache Kafka takes it, and its cleaner fails": lambda question, *codes: (
        question.name == "log.cleaner.io.buffer.load.factor" and codes == (NONE, INVALID_REQUEST)
    ),
    "Apache Kafka takes it, and its cleaner stands still for ever": lambda question, *codes: (
        question.name == "log.cleaner.io.max.bytes.per.second"
        and codes == (NONE, INVALID_REQUEST)
        and float(question.text) == 0
    ),
    "NaN passes Apache Kafka's comparisons, and nothing is ever cleaned": lambda question, *codes: (
        question.name in RATIOS and "NaN" in question.text and codes[0] is NONE
    ),
    "a bad value is no unknown server error": lambda question, kafka, ours: (
        kafka is ErrorCode.UNKNOWN_SERVER_ERROR and ours in (INVALID_REQUEST, INVALID_CONFIG)
    ),
    "Apache Kafka looks at some keys only once their listener is there": lambda question, *codes: (
        question.name.startswith("listener.name.elsewhere.") and codes == (NONE, INVALID_REQUEST)
    ),
    "listeners are not changed while a broker runs": lambda question, *codes: (
        question.name in LISTENERS and codes == (NONE, INVALID_REQUEST)
    ),
}


def reason(question: Question, kafka: ErrorCode, ours: ErrorCode) -> str | None:
    return next((why for why, holds in REASONS.items() if holds(question, kafka, ours)), None)


@pytest.mark.parametrize("every", [pytest.param(10, id="some"), pytest.param(1, id="all")])
def test_the_verdicts_are_apache_kafkas(pair: Pair, every: int) -> None:
    asked, unexplained = 0, []
    explained: Counter[str] = Counter()
    for question in questions(every):
        kafka, ours = verdict(pair.kafka, question), verdict(pair.ours, question)
        asked += 1
        assert ours in (NONE, INVALID_CONFIG, INVALID_REQUEST)
        if kafka == ours:
            continue
        why = reason(question, kafka, ours)
        if why is None:
            told = question._replace(text=question.text[:SHOWN_CHARACTERS])
            unexplained.append(f"{told}: Apache Kafka {kafka.name}, ours {ours.name}")
        else:
            explained[why] += 1
    print(f"{asked} verdicts, {explained.total()} differ:")
    for why, count in explained.most_common():
        print(f"  {count:5} {why}")
    assert not unexplained, "\n".join(unexplained)
    assert asked > 1000


# What depends on what is set already


def shown(client: WireClient, resource: str) -> dict[str, str | None]:
    """The dynamic configs of a broker, or the defaults of all, that a broker knows of."""
    source = FROM_BROKER if resource else FROM_DEFAULT_BROKER
    configs = describe(client, resource, kind=BROKER).values()
    return {config.name: config.value for config in configs if config.config_source == source}


def holds(client: WireClient, resource: str, change: Change) -> bool:
    operation, name, text = change
    configs = shown(client, resource)
    if operation == SET:  # the value of a key that nobody knows may be a secret
        return name in configs and configs[name] in (text, None)
    return (name in configs) == (operation != DELETE)


def both(pair: Pair, resource: str, *changes: Change) -> ErrorCode:
    """Alter a broker resource of either; the verdict, which must be the same.

    What was written holds for the next step once it has come back through ZooKeeper.
    """
    codes = [change(c, 1, resource, *changes, kind=BROKER).error_code for c in pair]
    assert codes[0] == codes[1], changes
    deadline = time.monotonic() + WAIT_SECONDS
    while codes[0] == 0:
        if all(holds(client, resource, each) for client in pair for each in changes):
            seen = [shown(client, resource) for client in pair]
            if seen[0] == seen[1]:
                break
        assert time.monotonic() < deadline, (changes, [shown(c, resource) for c in pair])
        time.sleep(0.02)
    return ErrorCode(codes[0])


def test_verdicts_on_what_is_set_already(pair: Pair) -> None:
    """Thread counts change by a factor of two of what they are; limits may need each other."""
    steps: list[tuple[str, list[Change], ErrorCode]] = [
        ("", [(SET, "num.io.threads", "17")], INVALID_REQUEST),
        ("", [(SET, "num.io.threads", "16")], NONE),
        ("", [(SET, "num.io.threads", "32")], NONE),
        (ID, [(SET, "num.io.threads", "15")], INVALID_REQUEST),
        ("", [(DELETE, "num.io.threads", None)], INVALID_REQUEST),
        ("", [(SET, "num.io.threads", "16")], NONE),
        ("", [(DELETE, "num.io.threads", None)], NONE),
        ("", [(SET, "max.connections.per.ip", "0")], INVALID_REQUEST),
        ("", [(SET, "max.connections.per.ip.overrides", "127.0.0.1:1000")], NONE),
        ("", [(SET, "max.connections.per.ip", "0")], NONE),
        ("", [(DELETE, "max.connections.per.ip.overrides", None)], INVALID_REQUEST),
        (
            "",
            [
                (DELETE, "max.connections.per.ip.overrides", None),
                (DELETE, "max.connections.per.ip", None),
            ],
            NONE,
        ),
        ("", [(SET, "log.retention.ms", "1000")], NONE),
        ("", [(SET, "log.local.retention.ms", "2000")], INVALID_REQUEST),
        ("", [(SET, "log.local.retention.ms", "500")], NONE),
        ("", [(SET, "log.retention.ms", "400")], INVALID_REQUEST),
        ("", [(SET, "log.retention.ms", "-7")], NONE),
        ("", [(DELETE, "log.local.retention.ms", None), (DELETE, "log.retention.ms", None)], NONE),
        (ID, [(SET, "log.cleaner.threads", "2"), (SET, "log.cleaner.backoff.ms", "7")], NONE),
        (ID, [(SET, "log.cleaner.dedupe.buffer.size", "2097152")], INVALID_REQUEST),
        (ID, [(SET, "log.cleaner.dedupe.buffer.size", "2097154")], NONE),
        ("", [(SET, "log.cleaner.dedupe.buffer.size", "1")], NONE),
        ("", [(DELETE, "log.cleaner.dedupe.buffer.size", None)], NONE),
        (ID, [(DELETE, "log.cleaner.dedupe.buffer.size", None)], NONE),
        (
            ID,
            [(DELETE, "log.cleaner.threads", None), (DELETE, "log.cleaner.backoff.ms", None)],
            NONE,
        ),
        (ID, [(SET, "listener.name.plaintext.max.connections", "0")], INVALID_REQUEST),
        (ID, [(SET, "listener.name.plaintext.max.connections", "500")], NONE),
        (ID, [(DELETE, "listener.name.plaintext.max.connections", None)], NONE),
        ("", [(SET, "listener.name.elsewhere.num.network.threads", "50")], NONE),
        (
            "",
            [(SET, "log.cleanup.policy", "compact"), (SET, "log.roll.hours", "1")],
            INVALID_REQUEST,
        ),
        ("", [(APPEND, "log.cleanup.policy", "compact")], NONE),
        ("", [(SUBTRACT, "log.cleanup.policy", "compact")], NONE),
        ("", [(APPEND, "log.cleanup.policy", "burn")], INVALID_REQUEST),
        ("", [(APPEND, "log.retention.ms", "1")], INVALID_CONFIG),
        ("", [(DELETE, "log.cleanup.policy", None)], NONE),
        ("", [(SET, "a.plugins.key", "anything")], NONE),
        ("", [(SET, "broker.rack", "r")], INVALID_REQUEST),
        ("", [(SET, "advertised.listeners", "PLAINTEXT://h:1")], INVALID_REQUEST),
        ("", [(SET, "listener.name.plaintext.ssl.keystore.location", "/k")], INVALID_REQUEST),
        (ID, [(SET, "ssl.keystore.location", "/k")], INVALID_REQUEST),
        (ID, [(SET, "sasl.enabled.mechanisms", "PLAIN")], NONE),
        (ID, [(SET, "listener.name.plaintext.plain.sasl.jaas.config", "secret")], NONE),
        (ID, [(SET, "listener.name.elsewhere.plain.sasl.jaas.config", "secret")], NONE),
        (ID, [(DELETE, "listener.name.elsewhere.plain.sasl.jaas.config", None)], NONE),
    ]
    for resource, changes, expected in steps:
        assert both(pair, resource, *changes) is expected, changes


def test_defaults_that_no_topic_can_have(pair: Pair) -> None:
    """Apache Kafka takes them one by one and together, and does not start again."""
    lags = ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms")
    changes = [(SET, lags[0], "9"), (SET, lags[1], "8")]
    codes = [
        change(client, 1, "", *changes, kind=BROKER, validate_only=True).error_code
        for client in pair
    ]
    assert codes == [NONE, INVALID_REQUEST]


def test_verdicts_on_whole_configurations(pair: Pair) -> None:
    """AlterConfigs replaces all; a topic's configs are judged together too."""
    lag = ("min.compaction.lag.ms", "max.compaction.lag.ms")
    cases: list[tuple[int, str, dict[str, str | None], ErrorCode]] = [
        (BROKER, "", {"log.roll.ms": "5000", "log.roll.jitter.ms": "-1"}, INVALID_REQUEST),
        (BROKER, "", {"log.roll.ms": "5000", "log.roll.jitter.ms": "10"}, NONE),
        (BROKER, ID, {"log.roll.ms": "0"}, INVALID_REQUEST),
        (BROKER, "", {}, NONE),
        (
            TOPIC,
            TOPIC_NAME,
            {lag[0]: "9", lag[1]: "8"},
            INVALID_CONFIG,
        ),
        (TOPIC, TOPIC_NAME, {lag[0]: "9", lag[1]: "9"}, NONE),
        (TOPIC, TOPIC_NAME, {"remote.storage.enable": "true"}, INVALID_CONFIG),
        (TOPIC, TOPIC_NAME, {"remote.log.copy.disable": "true"}, INVALID_CONFIG),
        (TOPIC, TOPIC_NAME, {"local.retention.ms": "5000", "retention.ms": "1"}, NONE),
        (TOPIC, TOPIC_NAME, {"no.such.key": "1"}, INVALID_CONFIG),
        (TOPIC, TOPIC_NAME, {}, NONE),
    ]
    for kind, resource, pairs, expected in cases:
        for client in pair:
            result = alter(client, 2, resource, pairs, kind)
            assert result.error_code == expected, (pairs, result)
