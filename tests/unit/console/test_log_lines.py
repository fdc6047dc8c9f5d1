"""What nodes log comes into the timeline: both formats, files that grow and are begun anew."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from pybroker_kafka.broker.observability.log_lines import LINE_FORMAT, TIME_FORMAT, JsonLines
from pybroker_kafka.console.cluster_view import Happening
from pybroker_kafka.console.measured import SEGMENT_LINES_MAX, SEGMENTS, Rolls
from pybroker_kafka.console.node_logs import BEHIND_BYTES, TOLD, NodeLogs, happening_of, parsed
from tests.support.processes import ROOT

SESSION = ("pybroker.broker.zk.zookeeper", "ZooKeeper session expired")
FORMATS = {"text": logging.Formatter(LINE_FORMAT, TIME_FORMAT), "json": JsonLines()}


def written(logger: str, message: str, created: float = 1.5, kind: str = "text") -> str:
    fields = {"name": logger, "levelname": "INFO", "msg": message, "created": created}
    record = logging.makeLogRecord(fields | {"msecs": created % 1 * 1000})
    return FORMATS[kind].format(record)


def test_each_logger_exists() -> None:
    rooms = ("broker", "coordinator", "replication", "storage")
    loggers = [
        name
        for room in rooms
        for path in ROOT.joinpath(room).rglob("*.py")
        for name in re.findall(r'getLogger\("([^"]+)"\)', path.read_text())
    ]
    assert [end for end, *_ in TOLD if not any(name.endswith(end) for name in loggers)] == []


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_line_is_read_in_both_formats(kind: str) -> None:
    line = parsed(written(*SESSION, kind=kind))
    assert line == (1500, *SESSION)
    assert happening_of("broker 1", line) == Happening(
        "session", "broker 1: ZooKeeper session expired", 1500
    )


@pytest.mark.parametrize(
    ("logger", "message", "kind"),
    [
        (
            "pybroker.coordinator.group.rebalance",
            "group 'g': generation 1 has 2 members",
            "rebalance",
        ),
        (
            "pybroker.broker.cleaner",
            "Cleaned log a-0 (dirty section = [0, 5)): 1 MB",
            "cleaning",
        ),
        ("pybroker.storage.retention", "a-0: deleted 2 old segments, up to offset 9", "retention"),
        ("pybroker.storage.retention", "something else", None),
        ("stranger", SESSION[1], None),
    ],
)
def test_what_is_told(logger: str, message: str, kind: str | None) -> None:
    line = parsed(written(logger, message))
    assert line is not None
    found = happening_of("broker 1", line)
    assert (None if found is None else found.kind) == kind


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[]", "Traceback", '{"time": 1}', "[x] INFO y (z)"]
)
def test_other_lines_are_none(text: str) -> None:
    assert parsed(text) is None


def test_files_are_followed(tmp_path: Path) -> None:
    path, logs = tmp_path / "broker-1.log", NodeLogs()
    files = {"broker 1": str(path)}
    assert logs.look(files) == []
    epoch = written("any", "broker 1 is the controller, epoch 7")
    path.write_text("x" * BEHIND_BYTES + f"\n{epoch}\n{written(*SESSION)}\nhalf of a li")
    assert [one.kind for one in logs.look(files)] == ["session"]
    assert logs.controller_epoch == 7
    assert logs.look(files) == []
    with path.open("a") as file:
        file.write(f"ne\n{written(*SESSION, created=2.0)}\n")
    assert [one.at_ms for one in logs.look(files)] == [2000]
    path.rename(tmp_path / "broker-1.log.1")
    path.write_text(f"{written(*SESSION, created=3.0)}\n")
    assert [one.at_ms for one in logs.look(files)] == [3000]


def test_rolls_are_seen() -> None:
    def text(first: int, second: int) -> str:
        return (
            f'{SEGMENTS}topic="a",partition="0"}} {first}\n'
            f'{SEGMENTS}topic="b",partition="1"}} {second}\nother 5\n'
        )

    rolls = Rolls()
    assert rolls.look({1: text(1, 1)}) == {}
    assert rolls.look({1: text(2, 1), 2: text(9, 9)}) == {1: ["a-0"]}
    assert rolls.look({1: text(1, 3), 2: text(9, 9)}) == {1: ["b-1"]}
    many = "".join(f'{SEGMENTS}topic="t{n}",partition="0"}} 1\n' for n in range(SEGMENT_LINES_MAX))
    assert rolls.look({1: many + text(5, 5)}) == {}
