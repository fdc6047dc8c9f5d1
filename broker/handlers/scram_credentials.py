"""DescribeUserScramCredentials v0 and AlterUserScramCredentials v0 (KIP-554).

Any broker describes; only the controller alters. The change is in ZooKeeper when it is answered and
reaches the brokers, this one too, a little later. One node holds a user's credentials and quotas:
unaltered entries are kept.

Mirrors `ZkAdminManager.describeUserScramCredentials` and `alterUserScramCredentials`. Beyond it a
salt has a limit: every client that names the user receives it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from ...protocol.api import ApiKey
from ...protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...protocol.apis.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ...protocol.errors import ErrorCode
from ...protocol.sasl.scram import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramHash,
    credential_from_salted_password,
)
from ...protocol.zookeeper.operations import SessionExpired, ZkError
from ..quotas.entities import entity_at, may_be_stored, path_of
from ..zk.config_store import ConfigStore, NoController
from ..zk.quota_store import USERS, read_kind

if TYPE_CHECKING:
    from ..cluster.controller_runtime import ControllerRuntime
    from ..network.request import Handler, Request
    from ..network.turns import Pace

Change: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion

MAX_ITERATIONS = 16384
MAX_SALT_BYTES = 1024
READ_AT_ONCE = 500  # users
TYPES: Mapping[int, ScramHash] = {1: ScramHash.SHA_256, 2: ScramHash.SHA_512}

_EMPTY_NAME = "Username must not be empty"
_NO_USER = "Attempt to describe a user credential that does not exist"
_NO_CREDENTIAL = "Attempt to delete a user credential that does not exist"
_TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request"
_ALTERED_TWICE = "A user credential cannot be altered twice in the same request"
_UNKNOWN_MECHANISM = "Unknown SCRAM mechanism"


class ScramCredentialHandlers:
    __slots__ = ("_controller", "_store")

    def __init__(self, store: ConfigStore, controller: ControllerRuntime) -> None:
        self._store = store
        self._controller = controller

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self.describe,
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS: self.alter,
        }

    # Describe

    async def describe(self, request: Request) -> None:
        names = [user.name for user in request.body.users or ()]
        pace = request.pace()
        try:
            results = await (self._of_users(names, pace) if names else self._of_all())
        except (ZkError, SessionExpired):
            request.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        request.respond(DescribeUserScramCredentialsResponse(error_message="", results=results))

    async def _of_all(self) -> list[DescribeUserScramCredentialsResult]:
        found = {}
        for path, config in (await self._store.run(read_kind(USERS))).items():
            entity = entity_at(path)
            if isinstance(entity, tuple) and isinstance(entity[0], str):
                found[entity[0]] = config
        described = (_described(user, found[user]) for user in sorted(found))
        return [result for result in described if result is not None]

    async def _of_users(
        self, names: list[str], pace: Pace
    ) -> list[DescribeUserScramCredentialsResult]:
        times = Counter(names)
        asked = list(times)
        results = []
        for first in range(0, len(asked), READ_AT_ONCE):
            some = asked[first : first + READ_AT_ONCE]
            fine = [name for name in some if times[name] == 1 and may_be_stored(name)]
            configs = await self._store.read_many(path_of((name, "")) for name in fine)
            for name in some:
                results.append(self._of_user(name, times[name], configs))
                await pace()
        return results

    def _of_user(
        self, name: str, times: int, configs: Mapping[str, Mapping[str, str]]
    ) -> DescribeUserScramCredentialsResult:
        error, message = ErrorCode.RESOURCE_NOT_FOUND, _EMPTY_NAME
        if name and times > 1:
            error, message = ErrorCode.DUPLICATE_RESOURCE, f"{_TWICE}: {name}"
        elif name and not may_be_stored(name):
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            message = f"there can be no user {name!r}: ZooKeeper has no such path"
        elif name:
            described = _described(name, configs[path_of((name, ""))])
            if described is not None:
                return described
            message = f"{_NO_USER}: {name}"
        return DescribeUserScramCredentialsResult(
            user=name, error_code=error, error_message=message
        )

    # Alter

    async def alter(self, request: Request) -> None:
        if not self._controller.is_active:
            request.fail(ErrorCode.NOT_CONTROLLER)
            return
        body: AlterUserScramCredentialsRequest = request.body
        outcomes = await request.in_turns(refused(body))
        changes: dict[str, list[Change]] = {}
        pace = request.pace()
        for change in _changes(body):
            if change.name not in outcomes:
                changes.setdefault(change.name, []).append(change)
                await pace()
        for user, wanted in changes.items():
            await pace()
            outcomes[user] = await self._alter(user, wanted)
        results = []
        for user, (code, message) in outcomes.items():
            results.append(
                AlterUserScramCredentialsResult(
                    user=user, error_code=code, error_message=message if code else ""
                )
            )
            await pace()
        request.respond(AlterUserScramCredentialsResponse(results=results))

    async def _alter(self, user: str, changes: Iterable[Change]) -> tuple[ErrorCode, str | None]:
        path = path_of((user, ""))
        try:
            config = await self._store.read(path)
            for change in changes:
                kind = TYPES[change.mechanism]
                if isinstance(change, ScramCredentialUpsertion):
                    config[kind.mechanism] = _credential(kind, change).to_text()
                elif config.pop(kind.mechanism, None) is None:
                    return ErrorCode.RESOURCE_NOT_FOUND, _NO_CREDENTIAL
            await self._store.write(path, config)
        except NoController:
            return ErrorCode.BROKER_NOT_AVAILABLE, "There is no controller at the moment; try again"
        except (ZkError, SessionExpired):
            return ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.description
        return ErrorCode.NONE, None


def refused(
    body: AlterUserScramCredentialsRequest,
) -> Generator[None, None, dict[str, tuple[ErrorCode, str | None]]]:
    """Steps that find the users whose changes are invalid independently of stored data, and the
    errors."""
    found: dict[str, tuple[ErrorCode, str | None]] = {}
    times: Counter[tuple[str, int]] = Counter()
    for change in _changes(body):
        wrong = _wrong(change)
        if wrong is not None:
            found[change.name] = wrong
        times[change.name, change.mechanism] += 1
        yield
    for (name, _), count in times.items():
        yield
        if count > 1 and name not in found:
            found[name] = (ErrorCode.DUPLICATE_RESOURCE, _ALTERED_TWICE)
    return found


def _changes(body: AlterUserScramCredentialsRequest) -> list[Change]:
    return [*body.deletions, *body.upsertions]


def _wrong(change: Change) -> tuple[ErrorCode, str] | None:
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, _EMPTY_NAME
    if change.mechanism not in TYPES:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, _UNKNOWN_MECHANISM
    if isinstance(change, ScramCredentialUpsertion):
        if change.iterations > MAX_ITERATIONS:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
        if change.iterations < MIN_ITERATIONS:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
        if len(change.salt) > MAX_SALT_BYTES:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt is too long"
    return None


def _credential(kind: ScramHash, change: ScramCredentialUpsertion) -> ScramCredential:
    return credential_from_salted_password(
        kind, bytes(change.salted_password), bytes(change.salt), change.iterations
    )


def _described(user: str, config: Mapping[str, str]) -> DescribeUserScramCredentialsResult | None:
    """None if there is no credential."""
    infos = []
    result = DescribeUserScramCredentialsResult(user=user, error_message="")
    for number, kind in TYPES.items():
        text = config.get(kind.mechanism)
        if text is None:
            continue
        try:
            iterations = ScramCredential.parse(text).iterations
        except ValueError:
            result.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            result.error_message = ErrorCode.UNKNOWN_SERVER_ERROR.description
            return result
        infos.append(CredentialInfo(mechanism=number, iterations=iterations))
    result.credential_infos = infos
    return result if infos else None
