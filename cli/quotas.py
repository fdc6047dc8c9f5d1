"""`pybroker quotas describe|set|remove`: how much users, clients and addresses are given.

Mirrors: kafka-configs for users, clients and ips, of which it takes the quotas alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import click

from ..client.admin.quotas import EntityQuotas
from ..client.admin.rows import quota_rows
from .options import UserError, echo, escape, show, show_json, table
from .target import Target, cluster_options

UNITS: Final = {
    "producer_byte_rate": "bytes/s",
    "consumer_byte_rate": "bytes/s",
    "request_percentage": "% of a thread",
    "controller_mutation_rate": "partitions/s",
    "connection_creation_rate": "connections/s",
}
DEFAULT: Final = "(default)"


def entity_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a quota's entity, as `entity`: types with names, None for a type's default."""

    @functools.wraps(command)
    def wrapped(**options: Any) -> object:
        entity: dict[str, str | None] = {}
        for kind in ("user", "client_id", "ip"):
            name, of_default = options.pop(kind), options.pop(f"{kind}_default")
            option = f"--{kind.replace('_', '-')}"
            if name is not None and of_default:
                raise UserError(f"{option} or {option}-default, not both")
            if name is not None or of_default:
                entity[kind.replace("_", "-")] = name
        if "ip" in entity and len(entity) > 1:
            raise UserError("an address has quotas of its own; leave out --user and --client-id")
        return command(entity=entity, **options)

    options = (
        click.option("--user", metavar="NAME", help="A user."),
        click.option(
            "--user-default", is_flag=True, help="All users without a quota of their own."
        ),
        click.option(
            "--client-id",
            metavar="ID",
            help="A client id; with --user, only for the clients of that user.",
        ),
        click.option(
            "--client-id-default", is_flag=True, help="All client ids without a quota of their own."
        ),
        click.option("--ip", metavar="ADDRESS", help="A client address."),
        click.option(
            "--ip-default", is_flag=True, help="All addresses without a quota of their own."
        ),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def quotas() -> None:
    """Quotas of users, clients and addresses: describe, set and remove them.

    \b
    pybroker quotas set producer_byte_rate=1000000 --user alice
    pybroker quotas set request_percentage=50 --user-default
    pybroker quotas set consumer_byte_rate=500000 --user alice --client-id page
    pybroker quotas set connection_creation_rate=10 --ip 192.0.2.7
    pybroker quotas describe
    pybroker quotas remove producer_byte_rate --user alice

    \b
    producer_byte_rate, consumer_byte_rate   bytes per second on each broker
    request_percentage                       percent of one thread on each broker
    controller_mutation_rate                 partitions created or deleted per s
    connection_creation_rate                 connections per second, with --ip
    """


@quotas.command()
@entity_options
@cluster_options
def describe(target: Target, entity: dict[str, str | None]) -> None:
    """Show all quotas, or only the quotas of the given user, client id or address."""
    found: list[EntityQuotas] = target.ask(lambda admin: admin.quotas.describe(entity))
    if target.as_json:
        show_json([{"entity": dict(one.entity), "quotas": dict(one.quotas)} for one in found])
        return
    made = table("user", "client id", "address", "quota", "value", "")
    for row in quota_rows(found):
        names = {kind: name or DEFAULT for kind, name in row["entity"].items()}
        who = [escape(names.get(kind, "")) for kind in ("user", "client-id", "ip")]
        made.add_row(*who, row["quota"], f"{row['value']:,.12g}", UNITS.get(row["quota"], ""))
    show(made)


@quotas.command("set")
@click.argument("values", nargs=-1, required=True, metavar="QUOTA=NUMBER...")
@entity_options
@cluster_options
def set_command(target: Target, values: tuple[str, ...], entity: dict[str, str | None]) -> None:
    """Set quotas for a user, a client id, a user and client id together, or an address."""
    wanted = dict(_parse(text) for text in values)
    _alter(target, entity, wanted, ())
    if target.as_json:
        show_json({"entity": entity, "quotas": wanted})
        return
    for key, number in wanted.items():
        echo(f"{_words(entity)}: {key} is {number:,.12g} {UNITS[key]}")


@quotas.command()
@click.argument("keys", nargs=-1, required=True, metavar="QUOTA...")
@entity_options
@cluster_options
def remove(target: Target, keys: tuple[str, ...], entity: dict[str, str | None]) -> None:
    """Remove quotas of a user, a client id, a user and client id together, or an address."""
    for key in keys:
        _check_key(key)
    _alter(target, entity, {}, keys)
    if target.as_json:
        show_json({"entity": entity, "removed": list(keys)})
    else:
        echo(f"{_words(entity)}: removed {', '.join(keys)}")


def _alter(
    target: Target,
    entity: dict[str, str | None],
    values: dict[str, float],
    removed: tuple[str, ...],
) -> None:
    if not entity:
        raise UserError("name the entity: --user, --client-id or --ip, or a default of one")
    target.ask(lambda admin: admin.quotas.alter(entity, values, removed))


def _check_key(key: str) -> None:
    if key not in UNITS:
        raise UserError(f"there is no quota {key!r}; there are: {', '.join(UNITS)}")


def _parse(text: str) -> tuple[str, float]:
    key, found, number = text.partition("=")
    _check_key(key)
    try:
        if found:
            return key, float(number.replace("_", ""))
    except ValueError:
        pass
    raise UserError(f"{text!r} is not {key}=NUMBER")


def _words(entity: dict[str, str | None]) -> str:
    return ", ".join(f"{kind} {name or DEFAULT}" for kind, name in entity.items())
