"""Transactions: the effects of a successful (or failed) write, as logged and replayed.

Mirrors `org.apache.zookeeper.txn`; `txn_bytes` has the bytes. A create names the final ephemeral
owner (so containers and TTL nodes need no types of their own), and a close of a session always
names the nodes that it deletes.

A transaction is the header (session, time, zxid) and one body. Bodies are idempotent facts (`path
exists since zxid z with this data`), never requests, so that replay needs no checks.
"""

from typing import NamedTuple

from ..protocol.zookeeper.constants import Op
from ..protocol.zookeeper.jute import ACL, BUFFER, INT, LONG, STRING, record, type_of, vector


@record(LONG, INT, LONG, LONG, INT)
class TxnHeader(NamedTuple):
    session_id: int
    cxid: int
    zxid: int
    time_ms: int
    type: int


class CreateTxn(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    owner: int
    parent_cversion: int


@record(STRING)
class DeleteTxn(NamedTuple):
    path: str


@record(STRING, BUFFER, INT)
class SetDataTxn(NamedTuple):
    path: str
    data: bytes | None
    version: int


@record(STRING, vector(type_of(ACL)), INT)
class SetAclTxn(NamedTuple):
    path: str
    acl: tuple[ACL, ...]
    version: int


class CheckTxn(NamedTuple):
    path: str


@record(INT)
class CreateSessionTxn(NamedTuple):
    timeout_ms: int


@record(vector(STRING))
class CloseSessionTxn(NamedTuple):
    paths: list[str]


@record(INT)
class ErrorTxn(NamedTuple):
    """A write that failed: it changed nothing, but it used up its zxid."""

    code: int


class MultiTxn(NamedTuple):
    """Several operations at one zxid."""

    parts: list[tuple[Op, "Body"]]


Body = (
    CreateTxn
    | DeleteTxn
    | SetDataTxn
    | SetAclTxn
    | CheckTxn
    | CreateSessionTxn
    | CloseSessionTxn
    | ErrorTxn
    | MultiTxn
)


class Txn(NamedTuple):
    header: TxnHeader
    body: Body
