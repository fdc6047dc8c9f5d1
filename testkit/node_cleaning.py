"""What lies on a cluster between two tests, read and removed inside of a broker.

Job: topics, dynamic configs (with quotas and credentials of users), ACLs and delegation tokens are
in ZooKeeper, and any broker reads and restores them; consumer groups and transactional ids are with
their coordinators. `cleaning`, in the test's process, compares and decides.

Invariants: a broker reads ZooKeeper's content again only if a change was made since; what is
changed here goes through the same flows as a client's request, so that each broker follows.
Leaves out: configs of a topic that is deleted with it, and internal topics, which stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import trio

from ..broker.resources.steps import in_turns
from ..broker.security.acls import ResourcePattern
from ..broker.zk import acl_znodes
from ..broker.zk.config_store import read_configs, write_config
from ..broker.zk.delegation_token_store import TOKEN_CHANGES, TOKENS, delete_token
from ..broker.zk.quota_store import CLIENTS, IPS, USERS, read_all_quotas, write_quotas
from ..protocol.zookeeper.operations import Create, Exists, Flow, GetChildren, GetData
from ..replication.controller import znodes

if TYPE_CHECKING:
    from ..broker.security.acls import AccessControlEntry
    from ..broker.server import Broker

CLEANING_SECONDS = 10.0
POLL_SECONDS = 0.001
TOPICS, BROKERS = "topics", "brokers"
QUOTED = (CLIENTS, USERS, IPS)
ALL_TOPICS = "/brokers/topics"
# A node below one of these comes with each change.
CHANGES = (ALL_TOPICS, znodes.CONFIG_CHANGES, TOKEN_CHANGES, *acl_znodes.CHANGES.values())

Content = dict[str, Any]


def read_changes() -> Flow[list[int]]:
    """Grows with each change of the content."""
    found = yield [Exists(path) for path in CHANGES]
    return [-1 if one.stat is None else one.stat.cversion for one in found]


def read_content() -> Flow[Content]:
    """The names of topics and tokens, the configs by entity, the ACLs by path."""
    roots = [ALL_TOPICS, TOKENS, *(znodes.config_path(kind) for kind in (TOPICS, BROKERS))]
    listed = yield [GetChildren(path) for path in roots]
    topics, tokens, of_topics, of_brokers = (list(one.children) for one in listed)
    configs = yield from read_configs(
        [*(f"{TOPICS}/{name}" for name in of_topics), *(f"{BROKERS}/{name}" for name in of_brokers)]
    )
    configs.update((yield from read_all_quotas()))
    return {
        "topics": topics,
        "tokens": tokens,
        "configs": {entity: config for entity, config in configs.items() if config},
        "acls": (yield from _read_acls()),
    }


def _read_acls() -> Flow[dict[str, str]]:
    kinds = [
        acl_znodes.type_path(kind, pattern)
        for pattern in acl_znodes.ROOTS
        for kind in acl_znodes.STORED_TYPES
    ]
    listed = yield [GetChildren(kind) for kind in kinds]
    paths = [
        f"{kind}/{name}" for kind, one in zip(kinds, listed, strict=True) for name in one.children
    ]
    found = yield [GetData(path) for path in paths]
    return {
        path: (one.data or b"").decode() for path, one in zip(paths, found, strict=True) if one.ok
    }


def resource_at(path: str) -> ResourcePattern:
    """The resource whose ACLs are at this path."""
    for pattern, root in acl_znodes.ROOTS.items():
        if path.startswith(f"{root}/"):
            kind, _, name = path[len(root) + 1 :].partition("/")
            return ResourcePattern(acl_znodes.type_of(kind), pattern, name)
    raise ValueError(f"no ACLs are at {path}")


class NodeCleaning:
    """The cleaning of one broker; its methods are controls of this broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._known: tuple[list[int], Content] | None = None

    async def content(self) -> Content:
        """All that is in ZooKeeper."""
        run = self._broker.zookeeper.run
        changes = await run(read_changes())
        if self._known is None or self._known[0] != changes:
            self._known = changes, await run(read_content())
        return self._known[1]

    def coordinated(self) -> dict[str, list[str]]:
        """The groups and transactional ids whose coordinator this broker is."""
        groups, transactions = self._broker.parts.coordinators[:2]
        return {
            "groups": [one.group_id for one in groups.machine.all_groups()],
            "transactional_ids": [
                one.transactional_id for one in transactions.machine.transactions()
            ],
        }

    async def forget(self, groups: list[str], transactional_ids: list[str]) -> None:
        """Remove groups with their members, and transactional ids with their open transactions."""
        by_group, by_id = self._broker.parts.coordinators[:2]
        by_group.machine.remove_groups(groups, by_group.now_ms)
        by_group.perform()
        with _patience("transactions do not end"):
            while by_id.machine.remove_ids(transactional_ids, by_id.now_ms):
                by_id.perform()
                await trio.sleep(POLL_SECONDS)

    async def delete_topics(self, topics: list[str]) -> dict[str, str]:
        """Delete topics, and wait until they are gone from ZooKeeper; their ids."""
        zookeeper = self._broker.zookeeper
        found = await zookeeper.execute([GetData(znodes.topic_path(name)) for name in topics])
        ids = {
            name: (znodes.decode_topic(name, one.data).topic_id or b"").hex()
            for name, one in zip(topics, found, strict=True)
            if one.ok
        }
        await zookeeper.execute([Create(znodes.delete_topic_path(name)) for name in ids])
        # The controller removes the mark last.
        marks = [Exists(znodes.delete_topic_path(name)) for name in ids]
        with _patience("topics are not deleted"):
            while any(one.ok for one in await zookeeper.execute(marks)):  # noqa: ASYNC110
                await trio.sleep(POLL_SECONDS)
        return ids

    async def restore(
        self,
        configs: Mapping[str, Mapping[str, str]],
        acls: Mapping[str, str],
        tokens: Sequence[str],
    ) -> int:
        """Write configs by entity ({}: none) and ACLs by path ("": none), and delete tokens; the
        number of the last change of a config, -1 without one."""
        zookeeper, number = self._broker.zookeeper, -1
        for entity, config in configs.items():
            write = write_quotas if entity.partition("/")[0] in QUOTED else write_config
            number = await zookeeper.run(write(entity, config))
        store = self._broker.parts.acls
        for path, data in acls.items() if store is not None else ():
            assert store is not None
            entries = await in_turns(acl_znodes.decoding(data.encode()))

            def replace(
                _old: object, new: frozenset[AccessControlEntry] = entries
            ) -> Generator[None, None, frozenset[AccessControlEntry]]:
                yield
                return new

            await store.update(resource_at(path), replace, in_turns)
        for token in tokens:
            await zookeeper.run(delete_token(token))
        return number

    async def settled(
        self, topics: Mapping[str, str], change: int, acls: Mapping[str, str], tokens: list[str]
    ) -> None:
        """Wait until this broker has followed: topics by name with the ids of the deleted ones."""
        parts = self._broker.parts
        await self._broker.store.until_applied(change)
        authorizer = None if parts.acls is None else parts.acls.authorizer
        wanted = {
            resource_at(path): await in_turns(acl_znodes.decoding(acls[path].encode()))
            for path in acls
        }

        def is_settled() -> bool:
            return (
                not any(
                    parts.cache.contains(name) and parts.cache.topic_id(name).hex() == topic_id
                    for name, topic_id in topics.items()
                )
                and (
                    authorizer is None
                    or all(authorizer.entries(one) == wanted[one] for one in wanted)
                )
                and not any(map(parts.tokens.tokens.token_credentials, tokens))
            )

        with _patience("this broker does not follow"):
            while not is_settled():  # noqa: ASYNC110
                await trio.sleep(POLL_SECONDS)


@contextlib.contextmanager
def _patience(problem: str) -> Iterator[None]:
    try:
        with trio.fail_after(CLEANING_SECONDS):
            yield
    except trio.TooSlowError:
        raise RuntimeError(f"{problem} within {CLEANING_SECONDS:g} s") from None
