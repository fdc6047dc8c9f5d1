"""What a test has made on its cluster, found by comparison and removed before the next test.

Job: `read` a snapshot, compare it with a later one, and remove the difference: topics, groups,
transactional ids, delegation tokens that are new; dynamic configs (with quotas and credentials of
users) and ACLs that are others. What a test has deleted of the earlier topics stays deleted.

Invariants: nothing is removed that was there before, or whose name is to be kept; when `clean`
returns, no broker that runs knows any of it. `node_cleaning` is the broker's side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .members import Members

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
TOPICS = "topics"
MOST_TOLD = 20  # names


class Snapshot(NamedTuple):
    """What is on a cluster: `KafkaCluster.snapshot`."""

    topics: frozenset[str]
    groups: frozenset[str]
    transactional_ids: frozenset[str]
    tokens: frozenset[str]
    configs: Mapping[str, Mapping[str, str]]  # by entity: topics/orders, users/alice, ...
    acls: Mapping[str, str]  # by path in ZooKeeper

    def __repr__(self) -> str:
        """Without configs, in which are credentials of users."""
        names = (*self[:4], set(self.configs), set(self.acls))
        return f"Snapshot({', '.join(str(sorted(some)) for some in names)})"


class Difference(NamedTuple):
    """What has to be done for an earlier snapshot to be true again."""

    topics: list[str]
    groups: list[str]
    transactional_ids: list[str]
    tokens: list[str]
    configs: dict[str, Mapping[str, str]]
    acls: dict[str, str]

    def words(self) -> str:
        """For the story of the cluster: the first names, and how many more there are."""
        named = [*self.topics, *self.groups, *self.transactional_ids, *self.configs, *self.acls]
        named += [f"token {one}" for one in self.tokens]
        more = len(named) - MOST_TOLD
        return ", ".join(named[:MOST_TOLD]) + (f" and {more} more" if more > 0 else "")


def difference(before: Snapshot, after: Snapshot, keep: Collection[str] = ()) -> Difference:
    """Compare. `keep`: names that stay, of any kind, with * and ? as in a shell."""

    def new(kind: str) -> list[str]:
        names: frozenset[str] = getattr(after, kind) - getattr(before, kind)
        return sorted(name for name in names if not is_kept(name, keep))

    topics = [name for name in new("topics") if name not in INTERNAL_TOPICS]
    lasting = before.topics & after.topics
    return Difference(
        topics,
        new("groups"),
        new("transactional_ids"),
        new("tokens"),
        {
            entity: before.configs.get(entity, {})
            for entity in _changed(before.configs, after.configs)
            if not is_kept(_name(entity), keep) and _lasts(entity, lasting)
        },
        {
            path: before.acls.get(path, "")
            for path in _changed(before.acls, after.acls)
            if not is_kept(_name(path), keep)
        },
    )


def is_kept(name: str, keep: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in keep)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _lasts(entity: str, topics: Collection[str]) -> bool:
    """A topic's configs come and go with it; an internal one that has just come keeps them."""
    kind, _, name = entity.partition("/")
    return kind != TOPICS or name in topics


def read(members: Members) -> Snapshot:
    """Raises ClusterError, also if no broker runs."""
    content = members.tell_any(do="content")
    coordinated = members.tell(None, do="coordinated").values()
    return Snapshot(
        frozenset(content["topics"]),
        frozenset(name for one in coordinated for name in one["groups"]),
        frozenset(name for one in coordinated for name in one["transactional_ids"]),
        frozenset(content["tokens"]),
        content["configs"],
        content["acls"],
    )


def clean(members: Members, before: Snapshot, keep: Collection[str] = ()) -> Difference:
    """Remove what has come since, and return it. Raises ClusterError."""
    found = difference(before, read(members), keep)
    if not any(found):
        return found
    if found.groups or found.transactional_ids:
        # With their topics, transactions could not end.
        members.tell(
            None,
            do="forget",
            groups=found.groups,
            transactional_ids=found.transactional_ids,
        )
    delete_topics(members, found.topics, found)
    return found


def delete_topics(members: Members, topics: list[str], more: Difference | None = None) -> None:
    """Delete topics, and whatever else is in a difference; no broker knows them any more."""
    ids = members.tell_any(do="delete_topics", topics=topics) if topics else {}
    configs, acls, tokens = (more.configs, more.acls, more.tokens) if more else ({}, {}, [])
    change = -1
    if configs or acls or tokens:
        change = members.tell_any(do="restore", configs=configs, acls=acls, tokens=tokens)
    members.tell(None, do="settled", topics=ids, change=change, acls=acls, tokens=tokens)
