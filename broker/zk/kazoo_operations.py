"""Our operations on znodes as kazoo's calls, and its answers as ours.

The chroot is added and removed here; no other module knows it.
"""

from __future__ import annotations

import logging
from typing import Any

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.protocol import serialization
from kazoo.protocol.states import ZnodeStat

from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    SetData,
    WriteOperation,
    ZkOperation,
    ZkResult,
    ZkStat,
)
from .kazoo_parts import acl_of
from .zookeeper_security import ZooKeeperSecurity
from .zookeeper_watches import Watcher

logger = logging.getLogger("pybroker.broker.zk.kazoo_operations")
_EPHEMERAL = 1
_SEQUENTIAL = 2
_ERROR_CODES: dict[type[Exception], ZkCode] = {
    kazoo_errors.NoNodeError: ZkCode.NO_NODE,
    kazoo_errors.NodeExistsError: ZkCode.NODE_EXISTS,
    kazoo_errors.BadVersionError: ZkCode.BAD_VERSION,
    kazoo_errors.NotEmptyError: ZkCode.NOT_EMPTY,
    kazoo_errors.NoAuthError: ZkCode.NO_AUTH,
    kazoo_errors.NoChildrenForEphemeralsError: ZkCode.NO_CHILDREN_FOR_EPHEMERALS,
    kazoo_errors.RolledBackError: ZkCode.RUNTIME_INCONSISTENCY,
    kazoo_errors.RuntimeInconsistency: ZkCode.RUNTIME_INCONSISTENCY,
    kazoo_errors.InvalidACLError: ZkCode.INVALID_ACL,
    kazoo_errors.AuthFailedError: ZkCode.AUTH_FAILED,
    kazoo_errors.BadArgumentsError: ZkCode.BAD_ARGUMENTS,
    kazoo_errors.MarshallingError: ZkCode.MARSHALLING_ERROR,
}


class KazooOperations:
    """`chroot`: the prefix of every path, "" for none; may be changed."""

    def __init__(self, kazoo: KazooClient, chroot: str, security: ZooKeeperSecurity) -> None:
        self._kazoo = kazoo
        self.chroot = chroot
        self._security = security

    def submit(self, operation: ZkOperation, watcher: Watcher | None) -> Any:
        """Kazoo's future result. A path that no server would take, with `..` for a name, is
        answered as bad arguments, as a server would.
        """
        try:
            return self._submit(operation, watcher)
        except ValueError:
            refused = self._kazoo.handler.async_result()
            refused.set_exception(kazoo_errors.BadArgumentsError())
            return refused

    def _submit(self, operation: ZkOperation, watcher: Watcher | None) -> Any:
        kazoo = self._kazoo
        if isinstance(operation, Multi):
            transaction = kazoo.transaction()
            for part in operation.operations:
                self._add_to_transaction(transaction, part)
            return transaction.commit_async()
        path = self.chroot + operation.path if operation.path != "/" else self.chroot or "/"
        if isinstance(operation, GetData):
            return kazoo.get_async(path, watcher)
        if isinstance(operation, Exists):
            return kazoo.exists_async(path, watcher)
        if isinstance(operation, GetChildren):
            return kazoo.get_children_async(path, watcher)
        if isinstance(operation, Create):
            return kazoo.create_async(
                path,
                operation.data,
                acl=acl_of(operation.path, self._security),
                ephemeral=operation.ephemeral,
                sequence=operation.sequential,
            )
        if isinstance(operation, SetData):
            return kazoo.set_async(path, operation.data, operation.version)
        return kazoo.delete_async(path, operation.version)

    def result(self, operation: ZkOperation, answer: Any) -> ZkResult:
        """The result for a value of kazoo's, or for an exception that the server answered."""
        if isinstance(operation, Multi):
            if isinstance(answer, Exception):
                return ZkResult(_code_of(answer))
            parts = tuple(self._part_result(part) for part in answer)
            failed = [p.code for p in parts if not p.ok]
            real = [code for code in failed if code is not ZkCode.RUNTIME_INCONSISTENCY]
            return ZkResult((real or failed or [ZkCode.OK])[0], results=parts)
        if isinstance(answer, Exception):
            return ZkResult(_code_of(answer))
        if isinstance(operation, GetData):
            data, stat = answer
            return ZkResult(data=data, stat=_stat(stat))
        if isinstance(operation, Exists):
            return ZkResult(ZkCode.OK if answer else ZkCode.NO_NODE, stat=_stat(answer))
        if isinstance(operation, GetChildren):
            return ZkResult(children=tuple(sorted(answer)))
        return self._part_result(answer)

    def _add_to_transaction(self, transaction: Any, part: WriteOperation) -> None:
        path = self.chroot + part.path
        if isinstance(part, Create):
            # Transaction.create() refuses null data, which Kafka writes into its inner nodes.
            flags = part.ephemeral * _EPHEMERAL | part.sequential * _SEQUENTIAL
            acl = acl_of(part.path, self._security)
            transaction.operations.append(serialization.Create(path, part.data, acl, flags))
        elif isinstance(part, SetData):
            transaction.set_data(path, part.data, part.version)
        elif isinstance(part, Delete):
            transaction.delete(path, part.version)
        else:
            assert isinstance(part, Check)
            transaction.check(path, part.version)

    def _part_result(self, answer: Any) -> ZkResult:
        if isinstance(answer, Exception):
            return ZkResult(_code_of(answer))
        if isinstance(answer, ZnodeStat):
            return ZkResult(stat=_stat(answer))
        if isinstance(answer, str):
            return ZkResult(path=answer[len(self.chroot) :])
        return ZkResult()


def data_bytes(operation: ZkOperation) -> int:
    """The bytes that an operation would have ZooKeeper store."""
    parts = operation.operations if isinstance(operation, Multi) else (operation,)
    return sum(len(part.data or b"") for part in parts if isinstance(part, Create | SetData))


def _code_of(error: Exception) -> ZkCode:
    code = _ERROR_CODES.get(type(error))
    if code is None:
        logger.warning("unexpected answer of ZooKeeper: %r", error)
        return ZkCode.SYSTEM_ERROR
    return code


def _stat(stat: ZnodeStat | None) -> ZkStat | None:
    if stat is None:
        return None
    return ZkStat(
        czxid=stat.czxid,
        ctime_ms=stat.ctime,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        child_count=stat.numChildren,
    )
