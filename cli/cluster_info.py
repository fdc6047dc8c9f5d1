"""`pybroker cluster info|apis`: the cluster as its brokers describe it.

Mirrors: kafka-cluster and kafka-broker-api-versions.
"""

from __future__ import annotations

import click

from .completion import brokers_option
from .options import echo
from .target import Row, Target, cluster_options


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cluster() -> None:
    """The cluster: its id, brokers, controller and APIs.

    \b
    pybroker cluster info
    pybroker cluster apis --broker 1
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
