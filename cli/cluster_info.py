"""`pybroker cluster info|apis|features|set-features`: the cluster as its brokers describe it.

Mirrors: kafka-cluster, kafka-broker-api-versions and kafka-features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .completion import brokers_option
from .options import UserError, echo
from .target import Row, Target, cluster_options, pairs

if TYPE_CHECKING:
    pass


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cluster() -> None:
    """The cluster: its id, brokers, controller, APIs and features.

    \b
    pybroker cluster info
    pybroker cluster apis --broker 1
    pybroker cluster features
    """


@cluster.command()
@cluster_options
def info(target: Target) -> None:
    """Show the cluster's id, brokers and controller."""
    found = target.ask(lambda admin: admin.cluster.describe())
    rows: list[Row] = [
        {
            "broker": one.broker_id,
            "host": one.host,
            "port": one.port,
            "rack": one.rack,
            "controller": one.broker_id == found.controller_id,
        }
        for one in found.brokers
    ]
    if target.as_json:
        whole = {"cluster_id": found.cluster_id, "controller": found.controller_id, "brokers": rows}
        target.report("", whole)
        return
    controller = found.controller_id if found.controller_id >= 0 else "none"
    echo(f"cluster {found.cluster_id or '(no id)'}, controller {controller}")
    target.show(rows)


@cluster.command()
@brokers_option
@cluster_options
def apis(target: Target, brokers: tuple[int, ...]) -> None:
    """Show the API versions of brokers, and the version of each that pybroker would use."""
    found = target.ask(lambda admin: admin.cluster.api_versions(brokers or None))
    rows: list[Row] = [
        {
            "broker": broker_id,
            "key": api.key,
            "api": api.name,
            "first": api.min_version,
            "last": api.max_version,
            "ours": api.usable,
        }
        for broker_id, one in found.values.items()
        for api in one.apis
    ]
    target.show_found(rows, found.errors)


@cluster.command()
@cluster_options
def features(target: Target) -> None:
    """Show the supported features of each broker and the finalized features of the cluster."""
    found = target.ask(lambda admin: admin.cluster.api_versions())
    rows: list[Row] = []
    for broker_id, one in found.values.items():
        for name in sorted(one.supported_features.keys() | one.finalized_features.keys()):
            supported = one.supported_features.get(name)
            in_force = one.finalized_features.get(name)
            rows.append(
                {
                    "broker": broker_id,
                    "feature": name,
                    "supported": None if supported is None else f"{supported[0]}-{supported[1]}",
                    "in_force": None if in_force is None else in_force[1],
                }
            )
    target.show_found(rows, found.errors, "the brokers have no features")


@cluster.command("set-features")
@click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL...")
@click.option(
    "--allow-downgrade", is_flag=True, help="Allow a lower level; level 0 removes the feature."
)
@click.option("--dry-run", is_flag=True, help="Only check whether the cluster would accept it.")
@cluster_options
def set_features(
    target: Target, levels: tuple[str, ...], allow_downgrade: bool, dry_run: bool
) -> None:
    """Set the finalized levels of cluster features."""
    texts = pairs(levels, "FEATURE=LEVEL")
    for name, level in texts.items():
        if not level.isdecimal():
            raise UserError(f"the level of {name} is a number, not {level!r}")
    wanted = {name: int(level) for name, level in texts.items()}
    found = target.ask(
        lambda admin: admin.cluster.update_features(
            wanted, allow_downgrade=allow_downgrade, validate_only=dry_run
        )
    )
    target.show_found(
        [{"feature": name, "level": wanted[name], "done": not dry_run} for name in found.values],
        found.errors,
    )
