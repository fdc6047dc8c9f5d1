"""`pybroker mirror`: copy topics, and what belongs to them, from one cluster to another.

Ctrl-C ends well: what is on its way arrives, positions are written down, and the counts are told.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from .addresses import AddressError, read_properties
from .interrupt import Interrupt, interruptible
from .options import UserError, run_client, show_json, user_errors
from .target import bytes_text, tell

if TYPE_CHECKING:
    from ...client.mirror.mirror import Mirror
    from ...client.mirror.settings import MirrorSettings

DEFAULT_ALIASES = ("source", "target")


@click.command(
    epilog="""\b
Examples:
  pybroker mirror mirror.properties
  pybroker mirror --from A=old:9092 --to B=new:9092 --topics 'orders.*'
"""
)
@click.argument("properties", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--from", "origin", metavar="[ALIAS=]HOST:PORT", help="The source, without a file.")
@click.option("--to", "target", metavar="[ALIAS=]HOST:PORT", help="The target, without a file.")
@click.option("--topics", metavar="PATTERNS", help="With --from: names or regular expressions.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="As in the file.")
@click.option("--clusters", multiple=True, metavar="ALIAS", help="Only flows to these clusters.")
@click.option("--json", "as_json", is_flag=True, help="For programs: JSON.")
@user_errors
def mirror(
    properties: Path | None,
    origin: str | None,
    target: str | None,
    topics: str | None,
    settings: tuple[str, ...],
    clusters: tuple[str, ...],
    as_json: bool,
) -> None:
    """Copy topics from cluster to cluster, as MirrorMaker 2 does, until Ctrl-C.

    PROPERTIES is a file as MirrorMaker 2 has it: clusters, A.bootstrap.servers, A->B.enabled,
    A->B.topics and so on. The simple case needs none: --from and --to.
    """
    found = _settings(properties, origin, target, topics, settings, clusters)
    for note in found.notes:
        tell(note)

    async def run(interrupt: Interrupt) -> None:
        from ...client.mirror.mirror import Mirror

        made = Mirror(found, tell)
        stop = trio.Event()

        async def watch() -> None:
            await interrupt.unless_told(trio.sleep_forever)
            stop.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            try:
                await made.run(stop)
            finally:
                _tell_counts(made, as_json)
                nursery.cancel_scope.cancel()

    run_client(lambda: interruptible(run))


def _settings(
    properties: Path | None,
    origin: str | None,
    target: str | None,
    topics: str | None,
    settings: Sequence[str],
    clusters: Sequence[str],
) -> MirrorSettings:
    """Raises UserError."""
    from ...client.errors import SettingsError
    from ...client.mirror.settings import read_settings

    if (properties is None) == (origin is None or target is None):
        raise UserError("name a file of properties, or both --from and --to")
    if properties is None:
        assert origin is not None
        assert target is not None
        given = _simple(origin, target, topics)
    else:
        try:
            given = read_properties(properties)
        except AddressError as error:
            raise UserError(str(error)) from None
    for text in settings:
        key, separator, value = text.partition("=")
        if not separator:
            raise UserError(f"{text!r} is not KEY=VALUE")
        given[key.strip()] = value.strip()
    try:
        return read_settings(given, targets=clusters)
    except SettingsError as error:
        raise UserError(str(error)) from None


def _simple(origin: str, target: str, topics: str | None) -> dict[str, str]:
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


def _tell_counts(made: Mirror, as_json: bool) -> None:
    if as_json:
        show_json(
            [
                {"flow": flow.stats.name, "records": flow.stats.records, "bytes": flow.stats.bytes}
                for flow in made.flows
            ]
        )
        return
    for flow in made.flows:
        if flow.settings.copies:
            stats = flow.stats
            click.echo(f"{stats.name}: {stats.records:,} records, {bytes_text(stats.bytes)}")
