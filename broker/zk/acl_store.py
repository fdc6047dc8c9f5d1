"""ACLs in ZooKeeper: written here, followed by every broker, applied to its `AclAuthorizer`.

Job: `run` loads all ACLs and follows the changes of other brokers; `update` changes the ACLs of one
resource, applies them on this broker as soon as they are written, and notifies the others.
Invariants: one change at a time on this broker, so that older ACLs of a resource never replace
newer ones in the authorizer; a node is written on top of the version it was computed from, or not
at all, and in the same transaction as its change notification. While ZooKeeper is away, or holds
ACLs that cannot be decoded, the authorizer keeps its present ones; a broker does not start with
ACLs that it cannot decode. At most MAX_WAITING changes wait for their turn.

Mirrors kafka.security.authorizer.AclAuthorizer (loadCache, updateResourceAcls, the change handler),
which writes the change notification in a transaction of its own, after the change.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import trio

from ...protocol.acls import PatternType
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    GetChildren,
    GetData,
    Multi,
    SessionExpired,
    SetData,
    WriteOperation,
    ZkError,
    ZkResult,
    create_recursive,
    expect,
)
from ...protocol.zookeeper.paths import path_is_valid
from ...replication.controller.znodes import MalformedZnode
from ...storage.log_directory import StartupError
from ..resources.steps import in_turns
from ..security.acl_authorizer import AclAuthorizer
from ..security.acls import NO_ENTRIES, AccessControlEntry, ResourcePattern
from . import acl_znodes
from .change_notifications import ChangeNotifications

if TYPE_CHECKING:
    from .zookeeper_client import ZooKeeperClient

logger = logging.getLogger("pybroker.broker.zk.acl_store")

MAX_UPDATE_RETRIES = 10
RETRY_BACKOFF_SECONDS = 0.1
RETRY_JITTER_SECONDS = 0.05
MAX_NODE_BYTES = 900_000  # jute.maxbuffer is 1 MiB, for a whole request
MAX_WAITING = 100
READS_AT_ONCE = 500
MAX_LOGGED_PATH = 300
ABSENT = -1


Entries: TypeAlias = frozenset[AccessControlEntry]
Change: TypeAlias = Callable[[Entries], Generator[None, None, Entries]]
"""Steps that compute the new entries from the old; done again if somebody else was faster."""
InTurns: TypeAlias = Callable[[Generator[None, None, Entries]], Awaitable[Entries]]


class UpdateFailed(Exception):
    """The ACLs of this resource were not changed; the text says why."""


class _Versioned(NamedTuple):
    entries: Entries
    version: int


class AclStore:
    """The store gives `authorizer` all ACLs, and is the only one to change them there."""

    __slots__ = ("_client", "_lock", "_versions", "_waiting", "authorizer")

    def __init__(self, client: ZooKeeperClient, authorizer: AclAuthorizer) -> None:
        self.authorizer = authorizer
        self._client = client
        self._lock = trio.Lock()
        self._versions: dict[ResourcePattern, int] = {}  # of the nodes of all that it knows
        self._waiting = 0

    # Following

    async def run(
        self,
        clock: Callable[[], int],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run until cancelled; started once all ACLs are known."""
        await self._client.over_sessions(self._make_paths)
        async with trio.open_nursery() as nursery:
            for pattern, path in acl_znodes.CHANGES.items():
                follower = _Follower(self, pattern, ChangeNotifications(self._client, path))
                await nursery.start(follower.run, clock)
            logger.info("%d resources have ACLs", len(self.authorizer.patterns()))
            task_status.started()

    async def _make_paths(self) -> None:
        for pattern, root in acl_znodes.ROOTS.items():
            for path in (root, acl_znodes.CHANGES[pattern]):
                await self._client.run(create_recursive(path))
            for kind in acl_znodes.STORED_TYPES:
                await self._client.run(create_recursive(acl_znodes.type_path(kind, pattern)))

    async def load(self, pattern: PatternType, *, at_start: bool) -> None:
        """Load all resources with patterns of this kind, and clear those without ACLs by now."""
        async with self._lock:
            there = await self._resources(pattern)
            gone = {one for one in self.authorizer.patterns() if one.pattern is pattern}
            gone.difference_update(there)
            await self._read_and_apply([*there, *gone], at_start=at_start)

    async def reload(self, resources: Sequence[ResourcePattern]) -> None:
        async with self._lock:
            await self._read_and_apply(resources, at_start=False)

    async def _resources(self, pattern: PatternType) -> list[ResourcePattern]:
        root = acl_znodes.ROOTS[pattern]
        found = []
        for name in await self._children(root):
            kind = acl_znodes.type_of(name)
            if kind not in acl_znodes.STORED_TYPES:
                logger.warning("ACLs of the unknown resource type %s are ignored", name)
                continue
            names = await self._children(f"{root}/{name}")
            found += [ResourcePattern(kind, pattern, resource) for resource in names]
        return found

    async def _children(self, path: str) -> Sequence[str]:
        listing = await self._client.execute_one(GetChildren(path))
        return expect(listing, path, ZkCode.NO_NODE).children

    async def _read_and_apply(
        self, resources: Sequence[ResourcePattern], *, at_start: bool
    ) -> None:
        for start in range(0, len(resources), READS_AT_ONCE):
            some = resources[start : start + READS_AT_ONCE]
            results = await self._client.execute(
                [GetData(acl_znodes.resource_path(resource)) for resource in some]
            )
            for resource, result in zip(some, results, strict=True):
                try:
                    self._apply(resource, await _versioned(resource, result), is_told=not at_start)
                except (MalformedZnode, ZkError) as error:
                    path = acl_znodes.resource_path(resource)
                    if at_start:
                        raise StartupError(f"{path} in ZooKeeper: {error}") from None
                    logger.error(
                        "%s is left as it was known before: %s", path[:MAX_LOGGED_PATH], error
                    )
                await trio.lowlevel.checkpoint()

    def _apply(self, resource: ResourcePattern, found: _Versioned, *, is_told: bool = True) -> None:
        if found.entries:
            self._versions[resource] = found.version
        else:
            self._versions.pop(resource, None)
        if self.authorizer.update(resource, found.entries) and is_told:
            path = acl_znodes.resource_path(resource)
            logger.info("ACLs of %s: %d", path[:MAX_LOGGED_PATH], len(found.entries))

    # Changing

    async def update(self, resource: ResourcePattern, change: Change, in_turns: InTurns) -> None:
        """Change the ACLs of one resource, also while others do so; UpdateFailed if that fails.

        Waits as long as ZooKeeper is away.
        """
        if not path_is_valid(acl_znodes.resource_path(resource)):
            raise UpdateFailed("ZooKeeper has no such names")
        if self._waiting >= MAX_WAITING:
            raise UpdateFailed("too many changes wait for ZooKeeper")
        self._waiting += 1
        try:
            async with self._lock:
                await self._update(resource, change, in_turns)
        finally:
            self._waiting -= 1

    async def _update(self, resource: ResourcePattern, change: Change, in_turns: InTurns) -> None:
        path = acl_znodes.resource_path(resource)
        known = self._versions.get(resource)
        now: _Versioned | None = None
        if known is not None:
            now = _Versioned(self.authorizer.entries(resource), known)
        for attempt in range(MAX_UPDATE_RETRIES + 1):
            if attempt:
                jitter = random.random() * RETRY_JITTER_SECONDS
                await trio.sleep(RETRY_BACKOFF_SECONDS + jitter)
            try:
                if now is None:
                    now = await self._read(resource)
                new = await in_turns(change(now.entries))
                written = await self._write(resource, now, new)
            except SessionExpired:
                now = None  # it may have been written or not: the next read shows it
                continue
            except (MalformedZnode, ZkError) as error:
                raise UpdateFailed(f"{path} in ZooKeeper: {error}") from None
            if written is not None:
                self._apply(resource, written)
                return
            now = None
        raise UpdateFailed(f"{path} was changed by others {MAX_UPDATE_RETRIES + 1} times meanwhile")

    async def _read(self, resource: ResourcePattern) -> _Versioned:
        result = await self._client.execute_one(GetData(acl_znodes.resource_path(resource)))
        return await _versioned(resource, result)

    async def _write(
        self, resource: ResourcePattern, now: _Versioned, new: Entries
    ) -> _Versioned | None:
        """Returns the node after the write; None if its version was not the expected one."""
        path = acl_znodes.resource_path(resource)
        if new == now.entries:
            if now.version == ABSENT:
                return now
            result = await self._client.execute_one(Multi((Check(path, now.version),)))
            return now if _is_written(path, result) else None
        write, version = await self._write_of(path, now, new)
        told = Create(
            acl_znodes.change_path(resource.pattern),
            acl_znodes.encode_change(resource),
            sequential=True,
        )
        result = await self._client.execute_one(Multi((write, told)))
        if result.code is ZkCode.NO_NODE:
            await self._make_paths()
        return _Versioned(new, version) if _is_written(path, result) else None

    async def _write_of(
        self, path: str, now: _Versioned, new: Entries
    ) -> tuple[WriteOperation, int]:
        """The operation, and the version of the node after it."""
        if not new:
            return Delete(path, now.version), ABSENT
        data = await in_turns(acl_znodes.encoding(new))
        if len(data) > MAX_NODE_BYTES:
            raise UpdateFailed(f"{path} would hold more than {MAX_NODE_BYTES} bytes")
        if now.version == ABSENT:
            return Create(path, data), 0
        return SetData(path, data, now.version), now.version + 1


class _Follower:
    """Applies other brokers' changes of the patterns of one kind."""

    __slots__ = ("_changes", "_is_loaded", "_pattern", "_store")

    def __init__(self, store: AclStore, pattern: PatternType, changes: ChangeNotifications) -> None:
        self._store = store
        self._pattern = pattern
        self._changes = changes
        self._is_loaded = False

    async def run(self, clock: Callable[[], int], *, task_status: trio.TaskStatus[None]) -> None:
        await self._changes.follow(self._changed, clock, load=self._load, task_status=task_status)

    async def _load(self) -> None:
        await self._store.load(self._pattern, at_start=not self._is_loaded)
        self._is_loaded = True

    async def _changed(self, changes: Sequence[bytes | None]) -> None:
        resources: dict[ResourcePattern, None] = {}
        for data in changes:
            try:
                resource = acl_znodes.decode_change(self._pattern, data)
                if path_is_valid(acl_znodes.resource_path(resource)):
                    resources[resource] = None
            except MalformedZnode as error:
                logger.error("Notified of %s", error)
        await self._store.reload(list(resources))


async def _versioned(resource: ResourcePattern, result: ZkResult) -> _Versioned:
    if not expect(result, acl_znodes.resource_path(resource), ZkCode.NO_NODE).ok:
        return _Versioned(NO_ENTRIES, ABSENT)
    data = result.data or b""
    return _Versioned(await in_turns(acl_znodes.decoding(data)), result.version)


def _is_written(path: str, result: ZkResult) -> bool:
    expected = (ZkCode.BAD_VERSION, ZkCode.NO_NODE, ZkCode.NODE_EXISTS)
    return expect(result, path, *expected).ok
