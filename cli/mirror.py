"""`pybroker mirror`: copy topics, and their related data, from one cluster to another.

Ctrl-C ends well: records in flight arrive, positions are written down, and the counts are shown.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from .addresses import AddressError, read_properties
from .interrupt import Interrupt, run_interruptible
from .mirror_views import MirrorMetrics, show_lines, show_table
from .options import UserError, metrics_host_option, user_errors
from .target import bytes_text, pairs, report

if TYPE_CHECKING:
    from ..client.mirror.mirror import Mirror
    from ..client.mirror.simple import SimpleMirror
    from ..client.mirror.stats import FlowStats

DEFAULT_ALIASES = ("source", "target")


@click.command(
    epilog="""\b
Examples:
  pybroker mirror mirror.properties
  pybroker mirror --from A=old:9092 --to B=new:9092 --topics 'orders.*'
  pybroker mirror --from old:9092 --to new:9092 --topics orders --simple mm1
"""
)
@click.argument("properties", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--from", "origin", metavar="[ALIAS=]HOST:PORT", help="Source cluster, instead of a file."
)
@click.option(
    "--to", "target", metavar="[ALIAS=]HOST:PORT", help="Target cluster, instead of a file."
)
@click.option(
    "--topics",
    metavar="PATTERNS",
    help="With --from: topics to copy, names or regular expressions.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set a key of the file."
)
@click.option(
    "--clusters", multiple=True, metavar="ALIAS", help="Run only the flows to these clusters."
)
@click.option(
    "--simple", metavar="GROUP", help="Copy like MirrorMaker 1, with a consumer of this group."
)
@click.option(
    "--abort-on-send-failure/--no-abort-on-send-failure",
    "aborts",
    default=True,
    show_default=True,
    help="With --simple: stop at a rejected record, or skip it.",
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus metrics on this port."
)
@metrics_host_option
@click.option("--json", "as_json", is_flag=True, help="For programs: a line of JSON a second.")
@user_errors
def mirror(
    properties: Path | None,
    origin: str | None,
    target: str | None,
    topics: str | None,
    settings: tuple[str, ...],
    clusters: tuple[str, ...],
    simple: str | None,
    aborts: bool,
    metrics_port: int | None,
    metrics_host: str,
    as_json: bool,
) -> None:
    """Copy topics from one cluster to another until Ctrl-C, like MirrorMaker 2.

    PROPERTIES is a configuration file of MirrorMaker 2, with keys such as clusters,
    A.bootstrap.servers, A->B.enabled and A->B.topics. With --from and --to no file is needed. The
    target cluster stores the positions, so a restarted mirror continues where it stopped.
    """
    from ..client.errors import SettingsError

    given = _properties(properties, origin, target, topics, settings)
    try:
        made = _mirror(given, clusters) if simple is None else _simple(given, simple, aborts)
    except SettingsError as error:
        raise UserError(str(error)) from None

    async def run(interrupt: Interrupt) -> None:
        from ..broker.observability.metrics_http import serve_metrics

        stop = trio.Event()

        async def watch() -> None:
            await interrupt.unless_told(trio.sleep_forever)
            stop.set()

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                if metrics_port is not None:
                    served = MirrorMetrics(made.stats)
                    serve = functools.partial(serve_metrics, served, metrics_port)
                    port = await nursery.start(functools.partial(serve, host=metrics_host))
                    report(f"metrics on http://{metrics_host}:{port}/metrics")
                if as_json:
                    nursery.start_soon(show_lines, made.stats)
                elif sys.stdout.isatty():
                    nursery.start_soon(show_table, made.stats)
                await made.run(stop)
                nursery.cancel_scope.cancel()
        finally:
            _tell_counts(made.stats, as_json)

    run_interruptible(run)


def _properties(
    properties: Path | None,
    origin: str | None,
    target: str | None,
    topics: str | None,
    settings: Sequence[str],
) -> dict[str, str]:
    """The properties from the file, or from the options. Raises UserError."""
    if (properties is None) == (origin is None or target is None):
        raise UserError("name a file of properties, or both --from and --to")
    if properties is None:
        assert origin is not None
        assert target is not None
        given = _between(origin, target, topics)
    else:
        try:
            given = read_properties(properties)
        except AddressError as error:
            raise UserError(str(error)) from None
    return given | pairs(settings, "KEY=VALUE")


def _mirror(given: dict[str, str], clusters: Sequence[str]) -> Mirror:
    """Raises SettingsError."""
    from ..client.mirror.mirror import Mirror
    from ..client.mirror.settings import read_settings

    found = read_settings(given, targets=clusters)
    for note in found.notes:
        report(note)
    return Mirror(found, report)


def _simple(given: dict[str, str], group: str, aborts: bool) -> SimpleMirror:
    """The one flow that is enabled. Raises SettingsError."""
    from ..client.errors import SettingsError
    from ..client.mirror.settings import read_settings
    from ..client.mirror.simple import SimpleMirror, SimpleSettings

    flows = [flow for flow in read_settings(given).flows if flow.copies]
    if len(flows) != 1:
        raise SettingsError("--simple is for one flow")
    (flow,) = flows
    topics = given.get(f"{flow.name}.topics") or given.get("topics") or ".*"
    settings = SimpleSettings(
        source=flow.source,
        target=flow.target,
        topics=topics.replace(",", "|"),
        group=group,
        offset_reset=given.get(f"{flow.source.alias}.consumer.auto.offset.reset", "latest"),
        commit_seconds=flow.flush_seconds,
        aborts=aborts,
    )
    return SimpleMirror(settings, report)


def _between(origin: str, target: str, topics: str | None) -> dict[str, str]:
    """Numbers of replicas are the brokers' own; nothing is written at the source."""
    ends = []
    for text, default in zip((origin, target), DEFAULT_ALIASES, strict=True):
        alias, separator, address = text.partition("=")
        ends.append((alias, address) if separator else (default, text))
    (source, source_address), (goal, target_address) = ends
    return {
        "clusters": f"{source},{goal}",
        f"{source}.bootstrap.servers": source_address,
        f"{goal}.bootstrap.servers": target_address,
        f"{source}->{goal}.enabled": "true",
        f"{source}->{goal}.topics": topics or ".*",
        f"{goal}->{source}.emit.heartbeats.enabled": "false",
        "offset-syncs.topic.location": "target",
        "replication.factor": "-1",
        "heartbeats.topic.replication.factor": "-1",
        "checkpoints.topic.replication.factor": "-1",
        "offset-syncs.topic.replication.factor": "-1",
        "offset.storage.replication.factor": "-1",
    }


def _tell_counts(flows: Sequence[FlowStats], as_json: bool) -> None:
    for stats in flows:
        if as_json:
            told = {"flow": stats.name, "records": stats.records, "bytes": stats.bytes}
            click.echo(json.dumps({"event": "stopped"} | told))
        elif stats.copies:
            click.echo(f"{stats.name}: {stats.records:,} records, {bytes_text(stats.bytes)}")
