"""Users who log in with SCRAM: list, set and remove passwords.

Invariants: a password leaves this process only as a salted hash, as KIP-554 has it; its salt looks
like the made-up salts that brokers send for users that do not exist.
Mirrors: describeUserScramCredentials and alterUserScramCredentials of KafkaAdminClient.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping

from ...protocol.api import ApiKey
from ...protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...protocol.apis.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from ...protocol.errors import ErrorCode
from ...protocol.sasl import ScramHash
from ...protocol.sasl.scram import SALT_CHARACTERS, salt_text
from ..cluster import Cluster

SALT_BITS = 256  # before the salt is cut
# The mechanisms' numbers on the wire.
SCRAM_NUMBERS: Mapping[ScramHash, int] = {ScramHash.SHA_256: 1, ScramHash.SHA_512: 2}


class Users:
    """`Users(cluster)`; each method raises ClientError if the cluster refuses."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self, names: Iterable[str] | None = None) -> dict[str, dict[ScramHash, int]]:
        """Users with passwords (None: all users), and the iterations of each of their
        mechanisms."""
        users = None if names is None else [UserName(name=name) for name in names]
        answer = await self._cluster.ask_anyone(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            DescribeUserScramCredentialsRequest(users=users),
            DescribeUserScramCredentialsResponse,
        )
        asked = self._cluster.asks("describe")
        asked.check(answer.error_code, answer.error_message, "cannot list the users")
        kinds = {number: kind for kind, number in SCRAM_NUMBERS.items()}
        found = {}
        for result in answer.results:
            if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            what = f"cannot describe {result.user!r}"
            asked.check(result.error_code, result.error_message, what)
            found[result.user] = {
                kinds[info.mechanism]: info.iterations for info in result.credential_infos
            }
        return found

    async def set_password(
        self, user: str, password: str, kinds: Collection[ScramHash], iterations: int
    ) -> None:
        """Set the password of a new or an existing user; other mechanisms stay unchanged."""
        upsertions = []
        for kind in kinds:
            salt = salt_text(secrets.randbits(SALT_BITS))[:SALT_CHARACTERS].encode()
            salted = kind.salted_password(password, salt, iterations)
            upsertions.append(
                ScramCredentialUpsertion(
                    name=user,
                    mechanism=SCRAM_NUMBERS[kind],
                    iterations=iterations,
                    salt=salt,
                    salted_password=salted,
                )
            )
        request = AlterUserScramCredentialsRequest(upsertions=upsertions)
        await self._alter(request, f"cannot set the password of {user!r}")

    async def remove_password(self, user: str, kinds: Collection[ScramHash]) -> None:
        """Remove the passwords of these mechanisms. Open connections stay open."""
        deletions = [ScramCredentialDeletion(name=user, mechanism=SCRAM_NUMBERS[k]) for k in kinds]
        request = AlterUserScramCredentialsRequest(deletions=deletions)
        await self._alter(request, f"cannot remove {user!r}")

    async def _alter(self, request: AlterUserScramCredentialsRequest, what: str) -> None:
        answer = await self._cluster.ask_controller(
            ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request, AlterUserScramCredentialsResponse
        )
        asked = self._cluster.asks("alter")
        for result in answer.results:
            asked.check(result.error_code, result.error_message, what)
