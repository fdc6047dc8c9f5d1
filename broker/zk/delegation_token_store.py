"""Delegation tokens in ZooKeeper: written here, followed by every broker, ended by the controller.

Job: a decision of `security.delegation_tokens` is written as a znode, then applied on this broker,
then announced to the others. On the controller, expired tokens are deleted now and then.
Invariants: one change at a time on this broker, so that a decision holds until it is written; the
HMAC and the secret are in no znode and no log line.

Mirrors DelegationTokenManagerZk and the token part of KafkaZkClient and KafkaController.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import trio

from ...protocol.errors import ErrorCode
from ...protocol.sanitized_names import desanitize, sanitize
from ...protocol.wall_clock import WallClock
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Create,
    Delete,
    Flow,
    GetChildren,
    GetData,
    SessionExpired,
    SetData,
    create_recursive,
    expect,
    run_one,
)
from ...replication.controller.znodes import MalformedZnode
from ..security.delegation_tokens import DelegationTokens, TokenInfo
from ..security.principal import KafkaPrincipal
from .change_notifications import ChangeNotifications

if TYPE_CHECKING:
    from .zookeeper_client import ZooKeeperClient

logger = logging.getLogger("pybroker.broker.zk.delegation_token_store")

TOKENS = "/delegation_token/tokens"
TOKEN_CHANGES = "/delegation_token/token_changes"
TOKEN_CHANGE_PREFIX = f"{TOKEN_CHANGES}/token_change_"
VERSION = 3
MAX_TOKEN_BYTES = 50_000  # of a node
CONTROLLER_LOOK_SECONDS = 1.0  # between looks whether this broker is the controller


# Znodes


def token_path(token_id: str) -> str:
    return f"{TOKENS}/{token_id}"


def encode_token(token: TokenInfo) -> bytes:
    payload = {
        "version": VERSION,
        "owner": sanitize(str(token.owner)),
        "tokenRequester": sanitize(str(token.requester)),
        "renewers": [sanitize(str(renewer)) for renewer in token.renewers],
        "issueTimestamp": token.issue_ms,
        "maxTimestamp": token.max_ms,
        "expiryTimestamp": token.expiry_ms,
        "tokenId": token.token_id,
    }
    return json.dumps(payload, separators=(",", ":")).encode()


def decode_token(data: bytes | None) -> TokenInfo:
    """Raises MalformedZnode. Before version 3 the owner is the requester."""
    try:
        payload: dict[str, Any] = json.loads(data or b"")
        if not 1 <= payload["version"] <= VERSION:
            raise ValueError(f"its version is {payload['version']}")
        owner = _principal(payload["owner"])
        return TokenInfo(
            token_id=str(payload["tokenId"]),
            owner=owner,
            requester=(
                _principal(payload["tokenRequester"]) if payload["version"] >= VERSION else owner
            ),
            renewers=tuple(_principal(text) for text in payload["renewers"]),
            issue_ms=int(payload["issueTimestamp"]),
            max_ms=int(payload["maxTimestamp"]),
            expiry_ms=int(payload["expiryTimestamp"]),
        )
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise MalformedZnode(f"a delegation token's node: {type(error).__name__} {error}") from None


def _principal(text: str) -> KafkaPrincipal:
    kind, colon, name = desanitize(text).partition(":")
    if not colon or not kind:
        raise ValueError(f"{text[:80]!r} is no principal")
    return KafkaPrincipal(kind, name)


# Flows


def write_token(token: TokenInfo) -> Flow[None]:
    """Set or create the token's node, and notify the other brokers."""
    path, data = token_path(token.token_id), encode_token(token)
    written = yield from run_one(SetData(path, data))
    if expect(written, path, ZkCode.NO_NODE).code is ZkCode.NO_NODE:
        expect((yield from run_one(Create(path, data))), path)
    yield from _notify_brokers(token.token_id)


def delete_token(token_id: str) -> Flow[None]:
    path = token_path(token_id)
    expect((yield from run_one(Delete(path))), path, ZkCode.NO_NODE)
    yield from _notify_brokers(token_id)


def _notify_brokers(token_id: str) -> Flow[None]:
    change = Create(TOKEN_CHANGE_PREFIX, token_id.encode(), sequential=True)
    expect((yield from run_one(change)), TOKEN_CHANGES)


def read_tokens() -> Flow[list[TokenInfo]]:
    """All tokens; nodes with other content are logged and left out."""
    listing = yield from run_one(GetChildren(TOKENS))
    children = expect(listing, TOKENS, ZkCode.NO_NODE).children
    results = yield [GetData(token_path(name)) for name in children]
    found = []
    for name, result in zip(children, results, strict=True):
        if expect(result, name, ZkCode.NO_NODE).ok:
            token = _decoded(name, result.data)
            if token is not None:
                found.append(token)
    return found


def _decoded(token_id: str, data: bytes | None) -> TokenInfo | None:
    try:
        token = decode_token(data)
        if token.token_id != token_id:
            raise MalformedZnode(f"it names token {token.token_id[:80]!r}")
        return token
    except MalformedZnode as error:
        logger.error("The delegation token %s is left out: %s", token_id, error)
        return None


class DelegationTokenStore:
    """`new_id` makes the id of a new token."""

    __slots__ = ("_client", "_clock", "_lock", "_new_id", "_wall", "tokens")

    def __init__(
        self,
        client: ZooKeeperClient,
        tokens: DelegationTokens,
        clock: Callable[[], int],
        new_id: Callable[[], str],
        wall: WallClock,
    ) -> None:
        self.tokens = tokens
        self._client = client
        self._clock = clock
        self._new_id = new_id
        self._wall = wall
        self._lock = trio.Lock()

    def _now_ms(self) -> int:
        """The time since the epoch, as in tokens; not of a wall clock that has just jumped."""
        return self._wall.trusted_ms(self._clock())

    # Changes

    async def create(
        self,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Collection[KafkaPrincipal],
        max_lifetime_ms: int,
    ) -> TokenInfo | ErrorCode:
        async with self._lock:
            token = self.tokens.new_token(
                self._new_id(), owner, requester, renewers, max_lifetime_ms, self._now_ms()
            )
            if isinstance(token, ErrorCode):
                return token
            if len(encode_token(token)) > MAX_TOKEN_BYTES:
                return ErrorCode.INVALID_REQUEST
            await self._write(token)
        logger.info("Created the delegation token %s of %s", token.token_id, owner)
        return token

    async def renew(
        self, given_hmac: bytes, by: KafkaPrincipal, period_ms: int
    ) -> TokenInfo | ErrorCode:
        async with self._lock:
            token = self.tokens.renewed(given_hmac, by, period_ms, self._now_ms())
            if isinstance(token, TokenInfo):
                await self._write(token)
            return token

    async def expire(
        self, given_hmac: bytes, by: KafkaPrincipal, period_ms: int
    ) -> TokenInfo | ErrorCode:
        async with self._lock:
            token = self.tokens.ended(given_hmac, by, period_ms, self._now_ms())
            if isinstance(token, TokenInfo):
                if period_ms < 0:
                    await self._delete(token.token_id)
                else:
                    await self._write(token)
            return token

    async def _write(self, token: TokenInfo) -> None:
        await self._client.run(write_token(token))
        self.tokens.put(token)

    async def _delete(self, token_id: str) -> None:
        await self._client.run(delete_token(token_id))
        self.tokens.remove(token_id)
        logger.info("The delegation token %s has expired", token_id)

    # Following

    async def run(
        self,
        is_controller: Callable[[], bool],
        expiry_check_interval_ms: int,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Run until cancelled; started once all tokens are known. Only with tokens switched on."""
        await self._client.over_sessions(self._make_paths)
        changes = ChangeNotifications(self._client, TOKEN_CHANGES)
        async with trio.open_nursery() as nursery:

            async def follow(*, task_status: trio.TaskStatus[None]) -> None:
                await changes.follow(
                    self._changed, self._clock, load=self._load, task_status=task_status
                )

            await nursery.start(follow)
            nursery.start_soon(self._expire_now_and_then, is_controller, expiry_check_interval_ms)
            task_status.started()

    async def _make_paths(self) -> None:
        for path in (TOKENS, TOKEN_CHANGES):
            await self._client.run(create_recursive(path))

    async def _load(self) -> None:
        async with self._lock:
            self.tokens.replace_all(await self._client.run(read_tokens()))

    async def _changed(self, changes: Sequence[bytes | None]) -> None:
        ids = dict.fromkeys((data or b"").decode("utf-8", "replace") for data in changes)
        names = [name for name in ids if name and "/" not in name and name not in (".", "..")]
        async with self._lock:
            results = await self._client.execute([GetData(token_path(name)) for name in names])
            for name, result in zip(names, results, strict=True):
                token = _decoded(name, result.data) if result.ok else None
                if token is not None:
                    self.tokens.put(token)
                elif result.code is ZkCode.NO_NODE:
                    self.tokens.remove(name)

    async def _expire_now_and_then(
        self, is_controller: Callable[[], bool], interval_ms: int
    ) -> None:
        """Expire tokens when this broker becomes the controller, then at intervals while it is."""
        next_check = None
        while True:
            if not is_controller():
                next_check = None
            elif next_check is None or trio.current_time() >= next_check:
                next_check = trio.current_time() + interval_ms / 1000
                await self._expire_all(interval_ms)
            await trio.sleep(min(interval_ms / 1000, CONTROLLER_LOOK_SECONDS))

    async def _expire_all(self, interval_ms: int) -> None:
        now_ms = self._wall.comparable_ms(self._clock(), interval_ms)
        if now_ms is None:
            return
        try:
            async with self._lock:
                for token_id in self.tokens.expired(now_ms):
                    await self._delete(token_id)
        except SessionExpired:
            logger.info("Expired delegation tokens stay until the next check: session lost")
