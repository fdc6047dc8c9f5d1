"""`pybroker acls add|list|remove`: permissions, in the words of kafka-acls.

Mirrors: kafka.admin.AclCommand, its --producer and --consumer included. `alice` is short for
`User:alice`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import click

from ..client.admin.acls import Acl
from ..client.admin.admin import Admin
from ..client.admin.rows import Row, acl_rows
from ..protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from ..protocol.apis.delete_acls import DeleteAclsFilter
from ..protocol.apis.describe_acls import DescribeAclsRequest
from .completion import complete_groups, complete_topics, complete_transactional_ids
from .options import UserError, echo, escape, principal, show, show_json, table
from .target import Target, cluster_options

NO_WORDS = ("UNKNOWN", "ANY")  # for filters and for values newer than this version
OPERATIONS = [one.name.lower() for one in AclOperation if one.name not in NO_WORDS]
READERS = (AclOperation.READ, AclOperation.DESCRIBE)
WRITERS = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
TRANSACTIONAL_WRITERS = (AclOperation.WRITE, AclOperation.DESCRIBE)


class Resource(NamedTuple):
    type: ResourceType
    name: str


class Entry(NamedTuple):
    principal: str
    permission: AclPermission


def resource_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The resources as one list, `resources`."""

    @functools.wraps(command)
    def wrapped(
        *,
        topics: tuple[str, ...],
        groups: tuple[str, ...],
        cluster: bool,
        transactional_ids: tuple[str, ...],
        delegation_tokens: tuple[str, ...],
        users: tuple[str, ...],
        **others: object,
    ) -> object:
        named = {
            ResourceType.TOPIC: topics,
            ResourceType.GROUP: groups,
            ResourceType.CLUSTER: (CLUSTER_NAME,) if cluster else (),
            ResourceType.TRANSACTIONAL_ID: transactional_ids,
            ResourceType.DELEGATION_TOKEN: delegation_tokens,
            ResourceType.USER: tuple(principal(user) for user in users),
        }
        resources = [Resource(kind, name) for kind, names in named.items() for name in names]
        return command(resources=resources, **others)

    options = (
        click.option(
            "--topic",
            "topics",
            multiple=True,
            metavar="NAME",
            help="Topic; '*' is every topic.",
            shell_complete=complete_topics,
        ),
        click.option(
            "--group",
            "groups",
            multiple=True,
            metavar="NAME",
            help="Consumer group; '*' is every group.",
            shell_complete=complete_groups,
        ),
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option(
            "--transactional-id",
            "transactional_ids",
            multiple=True,
            metavar="ID",
            help="Transactional id.",
            shell_complete=complete_transactional_ids,
        ),
        click.option(
            "--delegation-token",
            "delegation_tokens",
            multiple=True,
            metavar="ID",
            help="Delegation token, by its id.",
        ),
        click.option(
            "--user", "users", multiple=True, metavar="USER", help="Delegation tokens of this user."
        ),
        click.option(
            "--prefix", is_flag=True, help="The given names are prefixes of resource names."
        ),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def entry_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The principals as one list, `entries`, and `operations`."""

    @functools.wraps(command)
    def wrapped(
        *, allow: tuple[str, ...], deny: tuple[str, ...], operations: tuple[str, ...], **rest: Any
    ) -> object:
        entries = [Entry(principal(who), AclPermission.ALLOW) for who in allow]
        entries += [Entry(principal(who), AclPermission.DENY) for who in deny]
        found = [AclOperation[name.upper()] for name in operations]
        return command(entries=entries, operations=found, **rest)

    options = (
        click.option(
            "--allow",
            multiple=True,
            metavar="WHO",
            help="A user, or a principal such as User:CN=...; may be repeated.",
        ),
        click.option(
            "--deny",
            multiple=True,
            metavar="WHO",
            help="A user or principal to deny; overrides every --allow.",
        ),
        click.option(
            "--operation",
            "operations",
            multiple=True,
            type=click.Choice(OPERATIONS, case_sensitive=False),
            metavar="WORD",
            help=f"Operation; may be repeated: {', '.join(OPERATIONS)}.",
        ),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def acls() -> None:
    """Permissions of users: add, list and remove ACLs.

    \b
    pybroker acls add --allow alice --producer --topic flights
    pybroker acls add --allow bob --consumer --topic flights --group dashboards
    pybroker acls add --allow carol --operation read --topic logs- --prefix
    pybroker acls add --deny mallory --operation all --topic '*'
    pybroker acls list --topic flights
    pybroker acls remove --allow alice --topic flights

    The brokers need an authorizer; pybroker start --secure sets one.
    """


@acls.command(
    epilog="""\b
Examples:
  pybroker acls add --allow alice --producer --topic flights
  pybroker acls add --allow bob --consumer --topic flights --group dashboards
  pybroker acls add --allow carol --operation create --cluster
"""
)
@entry_options
@resource_options
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="ADDRESS",
    help="Only for connections from this address.",
)
@click.option("--producer", is_flag=True, help="Add the ACLs that a producer to --topic needs.")
@click.option(
    "--consumer", is_flag=True, help="Add the ACLs that a consumer of --topic in --group needs."
)
@cluster_options
def add(
    target: Target,
    entries: list[Entry],
    operations: list[AclOperation],
    resources: list[Resource],
    prefix: bool,
    hosts: tuple[str, ...],
    producer: bool,
    consumer: bool,
) -> None:
    """Allow or deny users operations on resources; without --operation, all operations."""
    if not entries:
        raise UserError("name the user, with --allow or --deny")
    if not resources:
        raise UserError("name the resource: --topic, --group, --cluster or --transactional-id")
    if operations and (producer or consumer):
        raise UserError("--producer and --consumer choose the operations; leave out --operation")
    if producer or consumer:
        pairs = _convenient(resources, producer=producer, consumer=consumer)
    else:
        pairs = list(itertools.product(resources, operations or [AclOperation.ALL]))
    creations = [
        Acl(
            resource_type=resource.type,
            resource_name=resource.name,
            pattern_type=_pattern(resource, prefix),
            principal=entry.principal,
            host=host,
            operation=operation,
            permission=entry.permission,
        )
        for resource, operation in pairs
        for entry in entries
        for host in hosts or (WILDCARD,)
    ]

    target.ask(lambda admin: admin.acls.create(creations))
    _show(target, acl_rows(creations), "added")


def _pattern(resource: Resource, prefix: bool) -> PatternType:
    """The cluster has only one name."""
    is_prefix = prefix and resource.type is not ResourceType.CLUSTER
    return PatternType.PREFIXED if is_prefix else PatternType.LITERAL


def _convenient(
    resources: list[Resource], *, producer: bool, consumer: bool
) -> list[tuple[Resource, AclOperation]]:
    """The resources and operations of --producer and --consumer, as in kafka-acls. Raises
    UserError.
    """
    of = {kind: [one for one in resources if one.type is kind] for kind in ResourceType}
    topics, groups = of[ResourceType.TOPIC], of[ResourceType.GROUP]
    ids = of[ResourceType.TRANSACTIONAL_ID]
    others = [one for one in resources if one not in (*topics, *groups, *ids)]
    if not topics:
        raise UserError("--producer and --consumer need --topic")
    if consumer != bool(groups):
        raise UserError("--consumer and --group go together; give both")
    if others or (ids and not producer):
        raise UserError(
            "--producer takes --topic and --transactional-id, --consumer --topic and --group"
        )
    pairs: list[tuple[Resource, AclOperation]] = []
    if producer:
        pairs += itertools.product(topics, WRITERS)
        pairs += itertools.product(ids, TRANSACTIONAL_WRITERS)
    if consumer:
        pairs += itertools.product(topics, READERS)
        pairs += itertools.product(groups, (AclOperation.READ,))
    return list(dict.fromkeys(pairs))


@acls.command("list")
@resource_options
@click.option("--principal", "who", metavar="WHO", help="Only the ACLs of this user.")
@cluster_options
def list_command(target: Target, resources: list[Resource], prefix: bool, who: str | None) -> None:
    """Show all ACLs, or those that match the given resources, prefix and '*' ACLs included."""
    requests = [
        DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=principal(who) if who else None,
            host_filter=None,
            operation=AclOperation.ANY,
            permission_type=AclPermission.ANY,
        )
        for kind, name, pattern in _patterns(resources, prefix, PatternType.MATCH)
    ]

    async def work(admin: Admin) -> set[Acl]:
        """Each ACL once: it may concern several of the resources."""
        return {acl for request in requests for acl in await admin.acls.list(request)}

    _show(target, acl_rows(target.ask(work)), "")


def _patterns(
    resources: list[Resource], prefix: bool, literal: PatternType
) -> list[tuple[ResourceType, str | None, PatternType]]:
    """The patterns of filters; without resources, one for all."""
    if not resources:
        return [(ResourceType.ANY, None, PatternType.ANY)]
    wanted = PatternType.PREFIXED if prefix else literal
    return [(one.type, one.name, wanted) for one in resources]


@acls.command(
    epilog="""\b
Examples:
  pybroker acls remove --allow alice --operation write --topic flights
  pybroker acls remove --allow alice          all that alice is allowed
  pybroker acls remove --topic flights        all ACLs for exactly this topic
"""
)
@entry_options
@resource_options
@click.option(
    "--host", "hosts", multiple=True, metavar="ADDRESS", help="Only ACLs for this address."
)
@cluster_options
def remove(
    target: Target,
    entries: list[Entry],
    operations: list[AclOperation],
    resources: list[Resource],
    prefix: bool,
    hosts: tuple[str, ...],
) -> None:
    """Remove the ACLs that match, and show them; an option that is left out matches everything.

    The change takes effect at once, also for open connections.
    """
    if not entries and not resources:
        raise UserError(
            "name the users (--allow, --deny) or the resources (--topic, ...) of the ACLs"
        )
    wanted: Iterable[tuple[str | None, AclPermission]] = entries or [(None, AclPermission.ANY)]
    filters = [
        DeleteAclsFilter(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=who,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        )
        for kind, name, pattern in _patterns(resources, prefix, PatternType.LITERAL)
        for who, permission in wanted
        for operation in operations or [AclOperation.ANY]
        for host in hosts or (None,)
    ]

    _show(target, acl_rows(target.ask(lambda admin: admin.acls.delete(filters))), "removed")


def _show(target: Target, rows: list[Row], done: str) -> None:
    if target.as_json:
        show_json(rows)
        return
    if rows:
        made = table("", "who", "may", "resource", "name", "from host")
        for row in rows:
            color = "green" if row["permission"] == "allow" else "red"
            name = f"{row['name']}..." if row["pattern"] == "prefixed" else row["name"]
            made.add_row(
                f"[{color}]{row['permission']}[/]",
                *(escape(text) for text in (row["principal"], row["operation"], row["resource"])),
                escape(name),
                escape(row["host"]),
            )
        show(made)
    count = f"{len(rows)} ACL{'' if len(rows) == 1 else 's'}"
    echo(f"{done} {count}" if done else count)
