"""`pybroker features describe|upgrade|downgrade`: what the cluster gives its clients beyond 3.9.

Mirrors: kafka-features. A cluster with nothing finalized does not say what it supports, as 3.9 does
not; `describe` then asks by dry runs, which need the permission to alter the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
import trio

from ..protocol.errors import ErrorCode
from ..protocol.features import NEWEST_RELEASE, RELEASES, SUPPORTED, Levels
from .options import UserError
from .target import Row, Target, cluster_options, pairs

if TYPE_CHECKING:
    from ..client.admin.admin import Admin

MAX_LOOKS = 20
LOOK_SECONDS = 0.1
# What the controller answers if a level is finalized already.
SAME_LEVEL = "to the same value"

BROUGHT = {
    "metadata.version": "newer requests",
    "group.version": "consumer groups of KIP-848",
    "transaction.version": "transactions whose epoch rises (KIP-890)",
    "share.version": "share groups: queues (KIP-932)",
    "streams.version": "streams groups (KIP-1071)",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def features() -> None:
    """Features: what the cluster gives its clients beyond Kafka 3.9.

    With nothing finalized, the brokers answer as Kafka 3.9 does. A finalized feature brings newer
    requests to all clients; all brokers must support it.

    \b
    pybroker features describe
    pybroker features upgrade --release 4.3
    pybroker features upgrade group.version=1
    pybroker features downgrade group.version=0
    """


@features.command()
@cluster_options
def describe(target: Target) -> None:
    """Show the finalized and the supported levels of all features."""
    levels, epoch, supported = target.ask(_described)
    rows: list[Row] = [
        {
            "feature": name,
            "finalized": levels.get(name, 0),
            "supported": "-".join(map(str, supported[name])) if name in supported else "no",
            "brings": BROUGHT.get(name, ""),
        }
        for name in sorted(levels.keys() | supported.keys())
    ]
    if target.as_json:
        target.report("", {"epoch": epoch, "features": rows})
        return
    target.show(rows, "no feature is finalized, and none could be: not all brokers support any")
    if not levels and supported:
        target.report(
            "nothing is finalized: the cluster answers as Kafka 3.9; "
            f"for more: pybroker features upgrade --release {NEWEST_RELEASE}",
            None,
        )


async def _described(admin: Admin) -> tuple[Levels, int, Mapping[str, tuple[int, int]]]:
    """The finalized levels, their epoch, and the levels that every broker supports."""
    for looks_left in reversed(range(MAX_LOOKS)):
        found = await admin.cluster.api_versions()
        if not found.values:
            raise next(iter(found.errors.values()))
        versions = list(found.values.values())
        newest = max(versions, key=lambda one: one.features_epoch)
        levels = {name: high for name, (_, high) in newest.finalized_features.items()}
        all_know = len({one.features_epoch for one in versions}) == 1
        if levels and (all_know or not looks_left):
            return levels, newest.features_epoch, _shared([v.supported_features for v in versions])
        if not levels and (supported := await _acceptable(admin)) is not None:
            return levels, newest.features_epoch, supported
        await trio.sleep(LOOK_SECONDS)  # some brokers do not know the last change yet
    raise UserError("the brokers do not know yet what was finalized last; ask again")


def _shared(ranges: Sequence[Mapping[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """The levels of all brokers."""
    return {
        name: (max(r[name][0] for r in ranges), min(r[name][1] for r in ranges))
        for name in set(ranges[0]).intersection(*ranges)
    }


async def _acceptable(admin: Admin) -> Mapping[str, tuple[int, int]] | None:
    """What the controller would finalize; None if it has finalized a level already."""
    dry = await admin.cluster.update_features(
        {name: high for name, (_, high) in SUPPORTED.items()}, validate_only=True
    )
    for error in dry.errors.values():
        if error.code is not ErrorCode.INVALID_REQUEST:  # it says nothing about what is supported
            raise error
        if SAME_LEVEL in str(error):
            return None
    return {name: SUPPORTED[name] for name in dry.values}


LEVELS = click.argument("levels", nargs=-1, metavar="[FEATURE=LEVEL...]")
DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Only check whether the cluster would accept it."
)


@features.command()
@LEVELS
@click.option(
    "--release",
    type=click.Choice([name for name, of in RELEASES.items() if of]),
    help="All features that a new cluster of this release of Kafka has.",
)
@DRY_RUN
@cluster_options
def upgrade(target: Target, levels: tuple[str, ...], release: str | None, dry_run: bool) -> None:
    """Finalize features, or raise their levels."""
    _update(target, levels, release, dry_run=dry_run, is_downgrade=False)


@features.command()
@LEVELS
@click.option(
    "--release",
    type=click.Choice(list(RELEASES)),
    help="The features that a new cluster of this release of Kafka has; others are removed.",
)
@DRY_RUN
@cluster_options
def downgrade(target: Target, levels: tuple[str, ...], release: str | None, dry_run: bool) -> None:
    """Lower the levels of features; level 0 removes a feature.

    Clients that use the feature lose it: groups of a removed kind answer errors until their members
    come back with the older protocol.
    """
    _update(target, levels, release, dry_run=dry_run, is_downgrade=True)


def _update(
    target: Target,
    texts: tuple[str, ...],
    release: str | None,
    *,
    dry_run: bool,
    is_downgrade: bool,
) -> None:
    if bool(texts) == (release is not None):
        raise UserError("name levels, as group.version=1, or a release, as --release 4.3")
    wanted = _levels(texts)

    async def update(admin: Admin) -> tuple[Levels, Mapping[str, Exception]]:
        asked = wanted
        if release is not None:
            now, _, _ = await _described(admin)
            asked = _of_release(RELEASES[release], now, is_downgrade=is_downgrade)
        if not asked:
            return {}, {}
        found = await admin.cluster.update_features(
            asked, allow_downgrade=is_downgrade, validate_only=dry_run
        )
        return {name: asked[name] for name in found.values}, found.errors

    done, errors = target.ask(update)
    rows: list[Row] = [
        {"feature": name, "level": level, "done": not dry_run} for name, level in done.items()
    ]
    target.show_found(rows, errors, "nothing to change: the cluster has these levels")


def _levels(texts: tuple[str, ...]) -> Levels:
    found = pairs(texts, "FEATURE=LEVEL")
    for name, level in found.items():
        if not level.isdecimal():
            raise UserError(f"the level of {name} is a number, not {level!r}")
    return {name: int(level) for name, level in found.items()}


def _of_release(release: Levels, now: Levels, *, is_downgrade: bool) -> Levels:
    """The changes that lead from the levels of now to those of a release."""
    if is_downgrade:
        return {name: release.get(name, 0) for name in now if release.get(name, 0) < now[name]}
    return {name: level for name, level in release.items() if level > now.get(name, 0)}
