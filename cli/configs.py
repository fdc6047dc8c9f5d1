"""`pybroker configs describe|alter`: configs of topics, brokers and their loggers, and groups.

Mirrors: kafka-configs for topics, brokers, broker-defaults, broker-loggers and groups.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ..client.admin.rows import config_row as entry_row
from .completion import complete_brokers, complete_groups, complete_topics
from .options import UserError
from .target import Row, Target, cluster_options, pairs

if TYPE_CHECKING:
    from ..client.admin.config_types import Alteration, ConfigEntry, ConfigResource

SECRET = "(secret)"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def configs() -> None:
    """Configs of topics, brokers and their loggers: describe and alter them.

    \b
    pybroker configs describe --topic flights
    pybroker configs describe --broker 1 --all
    pybroker configs describe --broker-defaults
    pybroker configs alter --topic flights --set retention.ms=86400000
    pybroker configs alter --broker-defaults --delete log.cleaner.threads
    pybroker configs alter --broker-logger 1 --set kafka.controller=DEBUG
    pybroker configs alter --group g --set consumer.session.timeout.ms=60000

    Only Kafka 4 has group configs.
    """


def resource_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name the resources, as `resources`."""

    @functools.wraps(command)
    def wrapped(
        *args: object,
        topics: tuple[str, ...],
        brokers: tuple[int, ...],
        broker_defaults: bool,
        loggers: tuple[int, ...],
        groups: tuple[str, ...],
        **rest: object,
    ) -> object:
        from ..client.admin.config_types import ConfigResource, ResourceKind

        resources = [ConfigResource(ResourceKind.TOPIC, name) for name in topics]
        resources += [ConfigResource(ResourceKind.BROKER, str(one)) for one in brokers]
        if broker_defaults:
            resources.append(ConfigResource(ResourceKind.BROKER, ""))
        resources += [ConfigResource(ResourceKind.BROKER_LOGGER, str(one)) for one in loggers]
        resources += [ConfigResource(ResourceKind.GROUP, name) for name in groups]
        if not resources:
            raise UserError(
                "name what it is about: --topic, --broker, --broker-defaults, --broker-logger "
                "or --group"
            )
        return command(*args, resources=resources, **rest)

    options = (
        click.option(
            "--topic", "topics", multiple=True, metavar="NAME", shell_complete=complete_topics
        ),
        click.option(
            "--broker",
            "brokers",
            multiple=True,
            type=int,
            metavar="ID",
            shell_complete=complete_brokers,
        ),
        click.option("--broker-defaults", is_flag=True, help="The dynamic default of all brokers."),
        click.option("--broker-logger", "loggers", multiple=True, type=int, metavar="ID"),
        click.option(
            "--group",
            "groups",
            multiple=True,
            metavar="NAME",
            help="A group; only Kafka 4 brokers have group configs.",
            shell_complete=complete_groups,
        ),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@configs.command()
@resource_options
@click.option(
    "--all", "everything", is_flag=True, help="Include configs that have their default value."
)
@click.option(
    "--docs", is_flag=True, help="Also show the documentation of each key, if the brokers send it."
)
@cluster_options
def describe(target: Target, resources: list[ConfigResource], everything: bool, docs: bool) -> None:
    """Show configs and the source of each value.

    Without --all, only values that are set on the topic or broker itself, or dynamically for all
    brokers.
    """

    found = target.ask(
        lambda admin: admin.configs.describe(resources, synonyms=True, documentation=docs)
    )
    rows = [
        config_row(resource, entry, docs=docs)
        for resource, entries in found.values.items()
        for entry in entries
        if everything or is_own(resource, entry)
    ]
    target.show_found(rows, found.errors, "nothing is set; see the defaults with --all")


def is_own(resource: ConfigResource, entry: ConfigEntry) -> bool:
    """Whether it is set on the resource itself, for a broker dynamically."""
    from ..client.admin.config_types import ConfigSource, ResourceKind

    if resource.kind is ResourceKind.TOPIC:
        return entry.source is ConfigSource.TOPIC
    if resource.kind is ResourceKind.BROKER_LOGGER:
        return entry.source is ConfigSource.DYNAMIC_BROKER_LOGGER
    if resource.kind is ResourceKind.GROUP:
        return entry.source is ConfigSource.GROUP
    return entry.source in (ConfigSource.DYNAMIC_BROKER, ConfigSource.DYNAMIC_DEFAULT_BROKER)


def config_row(resource: ConfigResource, entry: ConfigEntry, *, docs: bool = False) -> Row:
    """The row of a config; its value is hidden where the broker does not send it."""
    behind = [f"{one.name}={one.value} ({one.source.name.lower()})" for one in entry.synonyms[1:]]
    row = {"of": str(resource), **entry_row(entry), "else": behind}
    if entry.is_sensitive:
        row["value"] = SECRET
    if docs:
        row["documentation"] = entry.documentation
    return row


@configs.command()
@resource_options
@click.option(
    "--set", "set_", multiple=True, metavar="KEY=VALUE", help="Set a config; may be repeated."
)
@click.option(
    "--delete",
    "deleted",
    multiple=True,
    metavar="KEY",
    help="Reset a config to its default; may be repeated.",
)
@click.option(
    "--append",
    multiple=True,
    metavar="KEY=VALUE",
    help="Append a value to a config that is a list.",
)
@click.option(
    "--subtract",
    multiple=True,
    metavar="KEY=VALUE",
    help="Remove a value from a config that is a list.",
)
@click.option("--dry-run", is_flag=True, help="Only check whether the brokers would accept it.")
@cluster_options
def alter(
    target: Target,
    resources: list[ConfigResource],
    set_: tuple[str, ...],
    deleted: tuple[str, ...],
    append: tuple[str, ...],
    subtract: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Set or delete configs; other configs keep their values."""
    alterations = alterations_of(set_, deleted, append, subtract)
    alter_resources(target, resources, alterations, dry_run=dry_run)


def alterations_of(
    set_: tuple[str, ...],
    deleted: tuple[str, ...],
    append: tuple[str, ...] = (),
    subtract: tuple[str, ...] = (),
) -> list[Alteration]:
    """The alterations. Raises UserError if there are none, or a text is not KEY=VALUE."""
    from ..client.admin.config_types import Alteration, ConfigOperation

    operations = {
        ConfigOperation.SET: pairs(set_, "KEY=VALUE"),
        ConfigOperation.APPEND: pairs(append, "KEY=VALUE"),
        ConfigOperation.SUBTRACT: pairs(subtract, "KEY=VALUE"),
    }
    found = [
        Alteration(key, operation, value)
        for operation, values in operations.items()
        for key, value in values.items()
    ]
    found += [Alteration(key, ConfigOperation.DELETE, None) for key in deleted]
    if not found:
        raise UserError("say what to change, with --set KEY=VALUE or --delete KEY")
    return found


def alter_resources(
    target: Target,
    resources: list[ConfigResource],
    alterations: list[Alteration],
    *,
    dry_run: bool,
) -> None:
    """Alter configs of resources, for all commands that do so."""
    found = target.ask(
        lambda admin: admin.configs.alter(
            dict.fromkeys(resources, alterations), validate_only=dry_run
        )
    )
    rows: list[Row] = [
        {
            "of": str(resource),
            "key": one.name,
            "operation": one.operation.name.lower(),
            "value": one.value,
            "done": not dry_run,
        }
        for resource in found.values
        for one in alterations
    ]
    target.show_found(rows, found.errors)
