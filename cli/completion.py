"""Shell completion: `pybroker completion bash|zsh|fish`, and names out of the cluster.

Invariant: a completion prints nothing and raises nothing: without an answer in
PATIENCE_SECONDS there are no names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from .options import UserError, default_bootstrap
from .target import Target

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ..client.admin.admin import Admin

PATIENCE_SECONDS = 1.5
HINTS = {
    "bash": 'eval "$(pybroker completion bash)"        in ~/.bashrc',
    "zsh": 'eval "$(pybroker completion zsh)"         in ~/.zshrc',
    "fish": "pybroker completion fish | source        in ~/.config/fish/config.fish",
}


@click.command(
    epilog="\b\nPut this where the shell starts:\n" + "\n".join(f"  {h}" for h in HINTS.values())
)
@click.argument("shell", type=click.Choice(list(HINTS)))
def completion(shell: str) -> None:
    """Print a script that lets a shell complete commands, options, topics, groups and nodes."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    if made is None:
        raise UserError(f"there is no completion for {shell}")
    program = click.get_current_context().find_root().command
    source = made(program, {}, "pybroker", "_PYBROKER_COMPLETE")
    try:
        click.echo(source.source())
    except RuntimeError as error:  # bash is too old
        raise UserError(str(error)) from None


def _names(
    context: click.Context, begin: str, ask: Callable[[Admin], Awaitable[list[str]]]
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    found: list[str] = []
    with contextlib.suppress(Exception):
        found = _asked(context, ask)
    return [CompletionItem(name) for name in found if name.startswith(begin)]


def _asked(context: click.Context, ask: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    """Names from the cluster. Raises every error on the way."""
    import trio

    bootstrap = context.params.get("bootstrap") or default_bootstrap()
    target = Target(bootstrap, context.params.get("security") or {}, as_json=False)

    async def run() -> list[str]:
        with trio.move_on_after(PATIENCE_SECONDS):
            async with target.opened(is_quiet=True) as admin:
                return await ask(admin)
        return []

    return trio.run(run)


def complete_topics(
    context: click.Context, _parameter: click.Parameter, begin: str
) -> list[CompletionItem]:
    """Names of topics."""

    async def ask(admin: Admin) -> list[str]:
        return [topic.name or "" for topic in await admin.topics.list()]

    return _names(context, begin, ask)


def complete_groups(
    context: click.Context, _parameter: click.Parameter, begin: str
) -> list[CompletionItem]:
    """Names of groups."""

    async def ask(admin: Admin) -> list[str]:

        found = await admin.groups.list()
        return sorted(group.group_id for some in found.values.values() for group in some)

    return _names(context, begin, ask)


def complete_transactional_ids(
    context: click.Context, _parameter: click.Parameter, begin: str
) -> list[CompletionItem]:
    """Ids of transactions that their coordinators know."""

    async def ask(admin: Admin) -> list[str]:

        found = await admin.transactions.list()
        return sorted(one.transactional_id for some in found.values.values() for one in some)

    return _names(context, begin, ask)


def complete_nodes(
    context: click.Context, _parameter: click.Parameter, begin: str
) -> list[CompletionItem]:
    """Brokers' ids and `zookeeper`, of the cluster that runs on --data-dir."""
    from click.shell_completion import CompletionItem

    from ..local import cluster_state

    names: list[str] = []
    with contextlib.suppress(Exception):
        data_dir = context.params.get("data_dir") or cluster_state.default_data_dir()
        nodes = cluster_state.load(data_dir.absolute()).nodes
        names = [node.label for node in nodes]
    return [CompletionItem(name) for name in names if name.startswith(begin)]


def complete_brokers(
    context: click.Context, _parameter: click.Parameter, begin: str
) -> list[CompletionItem]:
    """Ids of brokers."""

    async def ask(admin: Admin) -> list[str]:
        return sorted(str(broker.node_id) for broker in (await admin.client.metadata([])).brokers)

    return _names(context, begin, ask)


def brokers_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """`brokers`: the ids of the brokers to ask, () for all."""
    return click.option(
        "--broker",
        "brokers",
        multiple=True,
        type=int,
        metavar="ID",
        help="Only this broker. Default: all brokers.",
        shell_complete=complete_brokers,
    )(command)


# `places`: partitions, in the forms that `places` reads; without any, those of all topics.
places_argument = click.argument(
    "places",
    nargs=-1,
    required=True,
    metavar="TOPIC[:PARTITIONS]...",
    shell_complete=complete_topics,
)
optional_places = click.argument(
    "places", nargs=-1, metavar="[TOPIC[:PARTITIONS]]...", shell_complete=complete_topics
)
