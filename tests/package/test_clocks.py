"""Who reads the wall clock: one place of the broker, and those that show or write down a time.

Whatever else is measured, waited for or expires goes by a clock that only goes on: SEMANTICS 12.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.package.test_circles import modules
from tests.support.processes import ROOT

# Who does, and what for.
MAY = {
    "cli.group_resets": "a time that its user names by how long ago it is",
    "cli.groups": "the same",
    "cli.tier_import": "the event timestamps of segments, as a broker writes them",
    "cli.tokens": "shown: whether a token has expired",
    "cli.topics": "shown: how old records are",
    "cli.transactions": "shown: how long transactions are open",
    "cli.verify": "a name that no other run has",
    "broker.config.tls_listeners": "a certificate's dates, in a warning",
    "console.collector": "shown: when something happened",
    "local.certificates": "dates of new certificates",
    "broker.resources.clock": "for all of the broker",
    "broker.zookeeper.server": "times of znodes and ids of sessions: the time at the start",
    "testkit.story": "shown: when something happened",
    "client.admin.tables": "shown: how long records wait for their table",
    "client.hosted.outbox": "timestamps of records, when they are sent",
    "client.mirror.copying": "shown: how far behind the newest record is",
    "client.mirror.flow": "the timestamp of a heartbeat",
    "client.mirror.reader": "the timestamps of records that have none that is kept",
    "client.mirror.simple": "shown: how far behind the newest record is",
    "client.producer.producer": "timestamps of records",
    "client.security.settings": "the dates of a token that is made",
    "spark_jobs.pipelines.consumer_lag": "the timestamp of a sample",
    "tables.state": "the age of snapshots; shown: when a table had all records",
}
_OF_TIME = {"time", "time_ns"}
_OF_DATETIME = {"now", "utcnow", "today"}
# Every file with one of `readings` has one of these words; few others have.
_MAY_READ = re.compile(
    r"\b(time_ns|now|utcnow|today|CLOCK_REALTIME)\b|\btime\.time\b|from time import"
)


def readings(tree: ast.AST) -> Iterator[str]:
    """Each mention of a function that reads the wall clock."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of, name = node.value.id, node.attr
            if (of == "time" and name in _OF_TIME) or (
                of in ("datetime", "date") and name in _OF_DATETIME
            ):
                yield f"{of}.{name}"
            if of == "time" and name == "CLOCK_REALTIME":
                yield f"{of}.{name}"
        elif isinstance(node, ast.ImportFrom) and node.module == "time" and not node.level:
            yield from (f"time.{one.name}" for one in node.names if one.name in _OF_TIME)


def test_nobody_else_reads_the_wall_clock() -> None:
    found = {
        name
        for name, path in modules(ROOT).items()
        if not name.startswith(("examples", "setup"))
        and _MAY_READ.search(text := path.read_text())
        and any(readings(ast.parse(text)))
    }
    assert found == set(MAY)


def test_readings_are_found() -> None:
    source = "import time\nfrom time import time_ns\nx = time.time\ny = datetime.now(UTC)\n"
    assert sorted(readings(ast.parse(source))) == ["datetime.now", "time.time", "time.time_ns"]
    assert not list(readings(ast.parse("import time\ntime.monotonic()\nself.time.time_out()\n")))
