"""What a person at a terminal sees of `pybroker produce`, `consume` and `topics`."""

from __future__ import annotations

import re
import signal
import subprocess
import time
import uuid
from contextlib import closing
from typing import IO

import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.support.commands import Commands
from tests.support.patience import until
from tests.support.processes import PYBROKER, ROOT, BrokerProcess

TIMEOUT_SECONDS = 120
YEAR_MS = 365 * 86_400_000


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4().hex[:8]}"


def command(broker: BrokerProcess, *words: str) -> list[str]:
    return [*PYBROKER, *words, "--bootstrap-server", broker.bootstrap]


def run(broker: BrokerProcess, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(broker, *words),
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def succeed(broker: BrokerProcess, *words: str, text: str = "") -> str:
    done = run(broker, *words, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(broker: BrokerProcess, *words: str) -> str:
    """What it says, in one line, with exit status 2."""
    done = run(broker, *words)
    assert (done.returncode, done.stdout) == (2, ""), done
    (line,) = done.stderr.splitlines()
    return line


def started(broker: BrokerProcess, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(broker, *words),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stream(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def produce_with_nulls(broker: BrokerProcess, topic: str) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for key, value in ((b"k", b"v"), (b"gone", None), (None, b"alone"), (b"", b"")):
            producer.send(topic, key=key, value=value)
        producer.flush(TIMEOUT_SECONDS)


def test_formats_and_nulls(shared_broker: BrokerProcess, topic: str) -> None:
    produce_with_nulls(shared_broker, topic)
    read = ["consume", topic, "--from-beginning", "--max-records", "4"]
    assert succeed(shared_broker, *read) == "v\nnull\nalone\n\n"
    tabs = succeed(shared_broker, *read, "--format", r"%o\t%k\t%v\x7c\\t%%", "--null", "-")
    assert tabs.splitlines() == [
        "0\tk\tv|\\t%",
        "1\tgone\t-|\\t%",
        "2\t-\talone|\\t%",
        "3\t\t|\\t%",
    ]
    for wrong in (r"\q", "%q", "%", "\\", r"\x1"):
        assert f"--format has no {wrong[:2]}" in refused(
            shared_broker, "consume", topic, "--format", f"%v{wrong}"
        )


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--from-beginning", "--since-ms", "5"], "--from-beginning and --since-ms"),
        (["--partition", "0", "--offset", "1", "--since-ms", "5"], "--since-ms and --offset"),
        (["--partition", "0", "--offset", "1", "--from-beginning"], "--from-beginning and --off"),
    ],
)
def test_one_place_to_start_at(
    shared_broker: BrokerProcess, topic: str, words: list[str], named: str
) -> None:
    said = refused(shared_broker, "consume", topic, *words)
    assert named in said
    assert "only one of them" in said


def test_ctrl_c_ends_consuming_with_a_count(shared_broker: BrokerProcess, topic: str) -> None:
    succeed(shared_broker, "produce", topic, text="one\ntwo\n")
    with started(shared_broker, "consume", topic, "--from-beginning") as consumer:
        output = stream(consumer.stdout)
        assert [output.readline(), output.readline()] == ["one\n", "two\n"]
        consumer.send_signal(signal.SIGINT)
        said = stream(consumer.stderr).read()
        assert (consumer.wait(TIMEOUT_SECONDS), said) == (0, f"read 2 records from {topic}\n")


def test_who_reads_a_pipe_may_have_enough(shared_broker: BrokerProcess, topic: str) -> None:
    """A group goes on with what did not go into it."""
    lines = [f"{number} {'x' * 200}" for number in range(20_000)]
    succeed(shared_broker, "produce", topic, text="\n".join(lines))
    words = ("consume", topic, "--group", f"g-{topic}", "-o", "beginning", "--until", "end", "-q")
    consumer = started(shared_broker, *words)
    assert stream(consumer.stdout).readline() == f"{lines[0]}\n"
    stream(consumer.stdout).close()
    (told,) = stream(consumer.stderr).read().splitlines()
    assert consumer.wait(TIMEOUT_SECONDS) == 0
    found = re.fullmatch(rf"read ([\d,]+) records? from {topic}", told)
    assert found is not None, told
    count = int(found[1].replace(",", ""))
    assert count < len(lines)
    assert succeed(shared_broker, *words).splitlines() == lines[count:]


@pytest.mark.nightly
def test_ctrl_c_ends_producing_with_a_count(shared_broker: BrokerProcess, topic: str) -> None:
    succeed(shared_broker, "topics", "create", topic)
    reader = ["consume", topic, "--from-beginning", "--max-records", "2"]
    with (
        started(shared_broker, *reader) as consumer,
        started(shared_broker, "produce", topic) as producer,
    ):
        stream(producer.stdin).write("one\ntwo\nhalf a l")
        stream(producer.stdin).flush()
        assert stream(consumer.stdout).read() == "one\ntwo\n"
        producer.send_signal(signal.SIGINT)
        said = stream(producer.stderr).read()
        assert (producer.wait(TIMEOUT_SECONDS), said) == (0, f"wrote 2 records to {topic}\n")


@pytest.mark.nightly
def test_single_keyless_records_spread(shared_broker: BrokerProcess, topic: str) -> None:
    succeed(shared_broker, "topics", "create", topic, "-p", "50")
    for number in range(4):
        succeed(shared_broker, "produce", topic, text=f"{number}\n")
    read = ["consume", topic, "--from-beginning", "--max-records", "4", "--format", "%p"]
    # All in one partition, by chance: once in 125 000 runs.
    assert len(set(succeed(shared_broker, *read).splitlines())) > 1


@pytest.mark.nightly
def test_internal_topics_are_deleted_by_force_alone(shared_broker: BrokerProcess) -> None:
    internal = "__consumer_offsets"
    if internal not in succeed(shared_broker, "topics", "list", "--internal").splitlines():
        succeed(shared_broker, "topics", "create", internal, "--config", "cleanup.policy=compact")
    assert "--force" in refused(shared_broker, "topics", "delete", internal)
    assert internal in succeed(shared_broker, "topics", "list", "--internal").splitlines()
    assert "deleted" in succeed(shared_broker, "topics", "delete", internal, "--force")
    assert "cannot delete topic 'nowhere'" in refused(shared_broker, "topics", "delete", "nowhere")
    assert internal not in succeed(shared_broker, "topics", "list", "--internal").splitlines()


@pytest.mark.nightly
def test_describe_marks_records_past_their_retention(
    shared_broker: BrokerProcess, topic: str
) -> None:
    now_ms = int(time.time() * 1000)
    succeed(shared_broker, "topics", "create", topic, "-p", "3")
    with closing(KafkaProducer(bootstrap_servers=shared_broker.bootstrap)) as producer:
        for partition, age_ms in ((0, YEAR_MS), (1, YEAR_MS), (1, 0)):
            producer.send(topic, b"x", partition=partition, timestamp_ms=now_ms - age_ms)
        producer.flush(TIMEOUT_SECONDS)
    assert "past retention" not in succeed(shared_broker, "topics", "describe", topic)
    other = topic + "-short"
    succeed(shared_broker, "topics", "create", other, "--config", "retention.ms=86400000")

    def is_marked() -> str | None:
        """The broker's own look, every five minutes, may come first and delete the record."""
        with closing(KafkaProducer(bootstrap_servers=shared_broker.bootstrap)) as producer:
            producer.send(other, b"x", timestamp_ms=now_ms - YEAR_MS).get(TIMEOUT_SECONDS)
        text = succeed(shared_broker, "topics", "describe", other)
        marked = "past retention: the newest record of partition 0 is of 20"
        return text if marked in text else None

    described = until(is_marked)
    assert "365 days old, and retention.ms is 86400000 (24 hours)" in described


@pytest.mark.nightly
def test_ctrl_c_ends_measuring_with_a_count(shared_broker: BrokerProcess, topic: str) -> None:
    """What was done by then is told, and it is no failure."""
    succeed(shared_broker, "topics", "create", topic)
    many = (topic, "--records", "1000000", "--rate", "500")
    member = (topic, "--records", "1000000", "--group", topic)
    with (
        started(shared_broker, "perf", "produce", *many) as producing,
        started(shared_broker, "perf", "consume", *member) as consuming,
        started(shared_broker, "verify", *many) as verifying,
        closing(
            KafkaConsumer(
                topic, bootstrap_servers=shared_broker.bootstrap, auto_offset_reset="earliest"
            )
        ) as consumer,
    ):
        # All three are at work: verify's records have a name.
        seen = set()
        for record in consumer:
            seen.add(record.value.startswith(b"v") and record.value.count(b":") >= 2)
            if len(seen) == 2:
                break
        commands = Commands(shared_broker.bootstrap)
        until(lambda: topic in commands.text("groups", "list", "--state", "Stable"))
        for process, told in (
            (producing, r"[\d,]+ records written, "),
            (consuming, r"[\d,]+ records read, "),
            (verifying, r"[\d,]+ records acknowledged, .* every one came back once"),
        ):
            process.send_signal(signal.SIGINT)
            said, errors = process.communicate(timeout=TIMEOUT_SECONDS)
            assert process.returncode == 0, errors
            assert re.match(told, said), (said, errors)
