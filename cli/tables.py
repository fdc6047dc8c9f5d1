"""`pybroker tables list|describe|compact|rebuild`: the tables of topics, how far they are, and what
hinders them.

They are asked of the cluster, not of the warehouse: neither the formats' libraries nor access to
the files is needed. A request is a config of the topic, which its writer follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .completion import complete_topics
from .options import UserError, echo
from .target import Row, Target, bytes_text, cluster_options, report, text_of

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..client.admin.tables import TableReport, TableView

NONE_YET = (
    "there are no tables; make one of a topic with: "
    "pybroker topics alter TOPIC --set pybroker.table=iceberg"
)


no_wait = click.option("--no-wait", is_flag=True, help="Ask the writer, and do not wait for it.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def tables() -> None:
    """The tables of topics, of Iceberg and Delta: how far they are, and what hinders them.

    \b
    pybroker topics create flights --config pybroker.table=iceberg
    pybroker tables list
    pybroker tables describe flights
    """


@tables.command("list")
@click.option("--failed", is_flag=True, help="Only tables in another state than current.")
@cluster_options
def list_tables(target: Target, failed: bool) -> None:
    """Show all tables with their states and lags.

    \b
    current   records are in the table within the target lag
    behind    the writer takes longer than that
    failed    an error stops the writer: see describe
    silent    the writer has not reported for three minutes
    missing   no writer has reported yet
    """
    found = target.ask(lambda admin: admin.tables.list())
    rows = [_row(one) for one in found if not failed or one.state != "current"]
    target.show(rows, "all tables are current" if failed and found else NONE_YET)


@tables.command(
    epilog="""\b
Examples:
  pybroker tables describe flights
  pybroker tables describe --json | jq '.[] | select(.state != "current")'
"""
)
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@cluster_options
def describe(target: Target, topics: tuple[str, ...]) -> None:
    """Show the tables of TOPICS, all if none is named: state, last commit, files, dead letters, the
    lag of each partition in records and seconds, and what to do about an error."""
    found = target.ask(lambda admin: _found(admin, topics))
    if target.as_json:
        target.show([_whole(one) for one in found])
        return
    if not found:
        echo(NONE_YET)
    for number, view in enumerate(found):
        if number:
            echo("")
        _show(target, view)


@tables.command()
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@no_wait
@cluster_options
def compact(target: Target, topics: tuple[str, ...], no_wait: bool) -> None:
    """Merge the small files of the tables of TOPICS, of Iceberg, up to pybroker.table.file.bytes.

    The writer merges them now and then by itself. It adds no records meanwhile."""
    _request(target, topics, "compaction", no_wait)


@tables.command()
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@no_wait
@cluster_options
def rebuild(target: Target, topics: tuple[str, ...], no_wait: bool) -> None:
    """Write the tables of TOPICS, of Iceberg, anew from the earliest record of each topic.

    The columns and partitions become those of the topic's configs. Readers see the old table until
    the new one is as far, then that. Records that the topic no longer has are not in the new table;
    the old one stays as a snapshot for pybroker.table.snapshot.retention.ms. Records that do not
    fit the schema are sent to the dead-letter topic once more."""
    _request(target, topics, "generation", no_wait)


def _request(target: Target, topics: Sequence[str], name: str, no_wait: bool) -> None:
    def on_error(told: TableReport) -> None:
        report(f"{told.name}: {told.error}; {told.advice}")

    async def work(admin: Admin) -> list[Row]:
        await _found(admin, topics)
        of_tables = admin.tables
        ask = of_tables.compact if name == "compaction" else of_tables.rebuild
        numbers = {topic: await ask(topic) for topic in topics}
        rows: list[Row] = []
        for topic, number in numbers.items():
            told = None if no_wait else await of_tables.done(topic, name, number, on_error)
            rows.append(
                {
                    "topic": topic,
                    name: number,
                    "rows": told and told.rows,
                    "files": told and told.files,
                }
            )
        return rows

    if not target.as_json and not no_wait:
        report("the writer is at work; it goes on if this command is interrupted")
    target.show(target.ask(work))


async def _found(admin: Admin, topics: Sequence[str]) -> list[TableView]:
    """Raises UserError for a topic without a table."""
    from .places import find_topics

    if topics:
        await find_topics(admin, topics)
    found = await admin.tables.list(topics or None)
    missing = set(topics) - {one.topic for one in found}
    for topic in sorted(missing):
        raise UserError(
            f"topic {topic!r} has no table; make one with: "
            f"pybroker topics alter {topic} --set pybroker.table=iceberg"
        )
    return found


def _seconds(lag_ms: int | None) -> float | None:
    return None if lag_ms is None else round(lag_ms / 1000, 1)


def _row(view: TableView) -> Row:
    report = view.report
    return {
        "topic": view.topic,
        "format": view.configs["pybroker.table"],
        "state": view.state,
        "lag": view.lag,
        "seconds": _seconds(view.lag_ms),
        "committed_ms": report and report.committed_ms,
        "rows": report and report.rows,
        "files": report and report.files,
        "dead_letters": report and report.dead_letters,
    }


def _whole(view: TableView) -> Row:
    report = view.report
    return {
        **_row(view),
        "table": report and report.name,
        "warehouse": report and report.warehouse,
        "snapshot": report and report.snapshot,
        "bytes": report and report.size_bytes,
        "writer": view.leader,
        "reported_ms": report and report.reported_ms,
        "error": report and report.error,
        "advice": view.advice,
        "configs": dict(view.configs),
        "partitions": _partition_rows(view),
        "snapshots": [{**told._asdict(), "offsets": offsets} for told, offsets in view.snapshots],
    }


def _partition_rows(view: TableView) -> list[Row]:
    return [
        {
            "partition": number,
            "in_table": one.offset,
            "end": one.end,
            "lag": one.lag,
            "seconds": 0.0
            if one.lag == 0
            else _seconds(one.oldest_ms and max(0, view.now_ms - one.oldest_ms)),
        }
        for number, one in view.places.items()
    ]


def _show(target: Target, view: TableView) -> None:
    from rich.console import Console

    from .options import PIPE_COLUMNS, escape

    console = Console(highlight=False, soft_wrap=True, width=PIPE_COLUMNS)
    console.print(f"[bold]{escape(view.topic)}[/]  {escape(_headline(view))}")
    for name, text in _lines(view):
        console.print(f"  {name:<13}{escape(text)}")
    target.show(_partition_rows(view))


def _headline(view: TableView) -> str:
    if view.lag == 0:
        return f"{view.state}: all records are in the table"
    if view.lag is None:
        return f"{view.state}: its partitions do not answer"
    seconds = _seconds(view.lag_ms)
    since = "" if seconds is None else f", the oldest for {text_of(seconds)} s"
    return f"{view.state}: {view.lag:,} records are not in the table{since}"


def _lines(view: TableView) -> list[tuple[str, str]]:
    from ..storage.retention import age_text, date_text

    report = view.report
    dead = view.configs.get("pybroker.table.dead.letter.topic") or ""
    found = [
        (
            "configs",
            ", ".join(f"{name}={text}" for name, text in sorted(view.configs.items()) if text),
        )
    ]
    if report is not None:
        found.append(("table", f"{report.name} in {report.warehouse}"))
        if report.committed_ms is not None:
            ago = age_text(max(0, view.now_ms - report.committed_ms))
            found.append(("last commit", f"{date_text(report.committed_ms)}, {ago} ago"))
        if report.snapshot is not None:
            what = "version" if report.format == "delta" else "snapshot"
            found.append((what, report.snapshot))
        if report.files is not None:
            size = "" if report.size_bytes is None else f" with {bytes_text(report.size_bytes)}"
            rows = "" if report.rows is None else f", {report.rows:,} rows"
            found.append(("files", f"{report.files:,}{size}{rows}"))
        if report.dead_letters or dead:
            where = f" in topic {dead}" if dead else ""
            found.append(("dead letters", f"{report.dead_letters:,}{where}"))
        reported = age_text(max(0, view.now_ms - report.reported_ms))
        found.append(("writer", f"a process of broker {view.leader}, heard of {reported} ago"))
        if report.error is not None:
            found.append(("error", report.error))
    if view.advice is not None:
        found.append(("what to do", view.advice))
    return found
